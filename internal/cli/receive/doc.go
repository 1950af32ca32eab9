// Package receive is the command receive: an HTTP server that verifies the
// events of a subscription, prints them and answers with a configured status.
package receive
