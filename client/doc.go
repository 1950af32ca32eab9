// Package client is a client of the management API of an Eventhook gateway.
//
// Client has a method for each operation of the API. The methods and types are generated from
// docs/openapi.json, and a method is named after the id of its operation. A method returns the
// decoded response, or an error. If the gateway answers with a status other than 2xx, the error
// is a *Problem. For an operation that returns pages, a method whose name begins with All
// iterates over the items of all pages.
//
// Optional members are pointers, so that a zero value differs from an absent member:
// new("stripe") sets one. A method whose name ends in From sends a json.RawMessage unchanged,
// for example a patch that contains only some members.
//
// The package imports only the standard library. It does not retry calls. Problem.RetryAfter is
// the delay that the gateway asks for.
package client
