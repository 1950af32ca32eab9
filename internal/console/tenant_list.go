package console

var tenantPages []page
