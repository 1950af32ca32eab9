package console

var typePages []page
