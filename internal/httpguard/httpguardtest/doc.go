// Package httpguardtest sends raw bytes to an HTTP server.
package httpguardtest
