package console

var sourcePages []page
