package console

var routePages []page
