// Package temporal sends deliveries to clusters of Temporal: it starts workflows, and sends signals to
// them. It is a transport of the dispatcher.
//
// An attempt succeeds when the cluster has acknowledged the request. Its id is that of the delivery, so
// that a repeated attempt starts no second workflow and sends no second signal. If the namespace already
// has a workflow with the id, running or not, an attempt to start it succeeds with
// eventhook.StatusExisted, and changes nothing.
//
// The connections come from package brokers, with their bounds and their address policy: targets with
// the same address and certificates, of one tenant, share one. The API key and the namespace are parts of
// each request.
//
// The client of Temporal is a part of programs that are built with the tag temporal. Other programs
// refuse its targets: see Missing.
package temporal
