// Package send makes one attempt at a delivery over HTTP: to a subscription, as a signed
// Standard Webhook, or to an http target of a route. When to send, and what an outcome
// means for the delivery, is for the caller to decide.
//
// The body and the id of a message are the same at every attempt. The outcome says of a
// failure which class it has and why, and shows no secret: neither its text nor the
// excerpt of the answer does.
package send
