package console

var searchPages []page
