// Package send makes one attempt at a delivery over HTTP: to a subscription, as a signed
// Standard Webhook, or to an http target of a route. The caller decides when to send, and
// which state the delivery has after the attempt.
//
// The body and the id of a message are the same at every attempt. A failed attempt has a
// class and a message. Neither the message nor the excerpt of the answer contains a secret.
package send
