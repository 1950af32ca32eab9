package ingest

import (
	"context"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/payload"
	"github.com/eventhook/eventhook/internal/roundrobin"
)

// largeSlots limits how many expensive requests of a tenant are verified and parsed at
// once. A request is expensive if its body is larger than smallBody or has a content
// encoding, or if the verifier of its source has a custom reserved expression. A tenant
// uses at most half of the processors for them. No slot is held while an event is stored.
type largeSlots struct {
	slots *roundrobin.Slots[eventhook.TenantID]
}

const (
	maxLargeWaiting = 64 // requests of a tenant that wait for a slot
	largeTimeout    = 5 * time.Second
	// largeSlotsPerCPU exceeds 1 because a slot may be held while keys are fetched.
	largeSlotsPerCPU = 8
)

func newLargeSlots(cpus int) largeSlots {
	maxPerTenant := max(cpus/2, 1)
	return largeSlots{roundrobin.NewSlots[eventhook.TenantID](largeSlotsPerCPU*cpus, maxPerTenant, maxLargeWaiting)}
}

// acquire waits for a slot if the request is expensive. encoding is its Content-Encoding
// header, or "". If refused is nil, the caller must call release. A request that gets no
// slot within largeTimeout is shed.
func (l largeSlots) acquire(ctx context.Context, s *source, encoding string, body []byte) (release func(), refused *refusal) {
	if len(body) <= smallBody && !s.hasCustomReserved && payload.BodyEncoding(encoding, body) == "" {
		return func() {}, nil
	}
	tenant := s.config.TenantID
	if l.slots.Acquire(ctx, tenant, largeTimeout) != nil {
		return nil, shed()
	}
	return func() { l.slots.Release(tenant) }, nil
}
