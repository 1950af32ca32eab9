package main

import (
	"testing"

	"github.com/eventhook/eventhook/ingest"
	"github.com/eventhook/eventhook/outbound"
	"github.com/eventhook/eventhook/route"
)

// Without an endpoint, the parts of a gateway work with each other as if there were no tracing.
func TestWithoutAnEndpointNothingIsWrapped(t *testing.T) {
	g := &gateway{}
	if g.ingestTracer() != nil || g.sendTracer() != nil {
		t.Error("want nil interfaces")
	}
	var store struct{ ingest.Store }
	var publishes struct{ outbound.PublishStore }
	var observer struct{ route.Observer }
	if g.tracedStore(store) != ingest.Store(store) || g.tracedPublishes(publishes) != outbound.PublishStore(publishes) ||
		g.tracedPlans(observer) != route.Observer(observer) {
		t.Error("want the parts themselves")
	}
}
