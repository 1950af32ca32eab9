package console

var workPages []page
