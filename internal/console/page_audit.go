package console

var auditPages []page
