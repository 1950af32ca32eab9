// Package httpguard protects an HTTP server at the connection: it refuses
// requests whose end is ambiguous (request smuggling), and it sends the refusal
// of a request without reading the rest of its body.
package httpguard
