// Package cli holds the commands that call the API of a gateway: eventhook
// source, route, event, subscription, delivery, tenant, key, audit, event-type
// and publish. Run executes a command line with these and other commands and
// returns the exit code.
//
// A command reads its flags, calls the gateway through package client, and
// prints the answer as a table or as the API's JSON. It stores nothing and
// retries nothing. If the gateway refuses a request, the command prints each
// fault that the gateway reports.
//
// Each noun has a file, such as subscription.go, and its larger commands have
// files with its prefix, such as subscription_body.go. The tools in the folders
// below need no API key; package input reads their arguments and package
// terminal prints their output.
package cli
