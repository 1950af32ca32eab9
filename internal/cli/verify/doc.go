// Package verify is the command verify: it verifies a request, or a file of
// test vectors, without a gateway.
package verify
