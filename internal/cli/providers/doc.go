// Package providers is the command providers: it lists the built-in providers.
package providers
