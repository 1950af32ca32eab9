// Package client calls the management API of an Eventhook gateway.
//
// Every operation of the API is a method of Client, named after the
// operation's id in docs/openapi.json, from which types and methods are made
// (make generate). A method returns what the API answers, or an error; what
// the API refuses is a *Problem, which says why. A method All… walks a list
// of any length.
//
// Members that may be absent are pointers, so that zero can be told from
// nothing: new("stripe") makes one. A change that only names some members is
// given as JSON, by the methods …From.
//
// The package knows nothing of the gateway's own packages, and retries
// nothing: Problem.RetryAfter says when it is worth it.
package client
