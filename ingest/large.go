package ingest

import (
	"context"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/payload"
	"github.com/eventhook/eventhook/internal/roundrobin"
)

// largeGate bounds how many requests of a tenant are verified and read at once if
// each takes long: those with a body over smallBody or in a content encoding, and
// those of a source whose verifier has a reserved expression of its own. A tenant that
// sends many of them uses half of the processors at most. A slot is not held while an
// event is stored.
type largeGate struct {
	gate *roundrobin.Slots[eventhook.TenantID]
}

const (
	largeWaiting  = 64 // requests of a tenant that wait for a slot
	largePatience = 5 * time.Second
	// largePerCPU is how many slots there are for each processor. A slot may be held
	// while keys are fetched, so there are more of them than processors.
	largePerCPU = 8
)

// newLargeGate is for a number of processors.
func newLargeGate(cpus int) largeGate {
	return largeGate{roundrobin.NewSlots[eventhook.TenantID](largePerCPU*cpus, max(cpus/2, 1), largeWaiting)}
}

// enter waits for a slot if the request needs one. encoding is the request's
// Content-Encoding, "" without one. The caller must call leave. A
// request that gets no slot in time is shed.
func (g largeGate) enter(ctx context.Context, e *endpoint, encoding string, body []byte) (leave func(), no *refused) {
	if len(body) <= smallBody && !e.hasReserved && payload.BodyEncoding(encoding, body) == "" {
		return func() {}, nil
	}
	tenant := e.source.TenantID
	if g.gate.Acquire(ctx, tenant, largePatience) != nil {
		return nil, shed()
	}
	return func() { g.gate.Release(tenant) }, nil
}
