package console

var keyPages []page
