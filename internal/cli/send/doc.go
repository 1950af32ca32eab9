// Package send is the command send: it signs a sample webhook as a provider does
// and sends it to a URL. It has a sample for every provider with a preset; the
// signatures come from package verify.
package send
