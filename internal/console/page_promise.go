package console

var promisePages []page
