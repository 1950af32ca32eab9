// Package send is the command send: it signs a sample webhook as GitHub or
// Stripe does and sends it to a URL.
package send
