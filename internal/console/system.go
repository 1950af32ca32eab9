package console

var systemPages []page
