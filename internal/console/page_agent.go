package console

var agentPages []page
