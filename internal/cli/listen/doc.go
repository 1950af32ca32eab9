// Package listen forwards the webhooks of a tenant to a program on the developer's machine, as
// they arrive at a gateway.
//
// A feed reads the stream of events. It passes each webhook once, in the order of arrival: after a
// lost connection, or if the gateway skipped messages, it reads the last minute before the loss
// again and skips the webhooks that it has passed. The forwarder reads each webhook from the API
// and sends it to the program, one at a time, with its method, path suffix, query, headers and
// exact bytes.
//
// The package reads only. The gateway stores nothing for a listener, and no event waits for one: a
// listener that does not read its stream loses the connection, and continues with a new one. The
// memory of a listener is bounded by the webhooks that wait, without their bodies, and one body.
package listen
