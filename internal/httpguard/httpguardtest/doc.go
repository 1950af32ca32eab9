// Package httpguardtest sends raw bytes to an HTTP server, and calls a handler without a network.
package httpguardtest
