// Package demo is the command demo: it sends webhooks to a gateway that it
// starts, works as a worker and as a subscriber of this gateway, and prints each
// step. The command fails at the first step whose result is not the expected one.
package demo
