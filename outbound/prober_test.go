package outbound_test

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound"
)

// probeHarness has probers of several instances that share a store and a receiver, in a
// synctest bubble.
type probeHarness struct {
	*probeStore
	t       *testing.T
	began   time.Time
	mu      sync.Mutex
	takes   time.Duration
	status  int             // of the receiver's answers
	sent    []time.Duration // when requests were sent, since the beginning
	results []outbound.ProbeResult
	broken  eventhook.DeliveryID // its transform fails
	busy    bool                 // the time for transforms is used up
}

func runProberTest(t *testing.T, f func(h *probeHarness)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f(&probeHarness{probeStore: newProbeStore(), t: t, began: time.Now(), status: 503})
	})
}

// start runs a prober. stop ends it and waits.
func (h *probeHarness) start(change ...func(*outbound.Prober)) (stop func()) {
	p := &outbound.Prober{Store: h, Directory: h, Observer: h, Log: slog.New(slog.DiscardHandler), Now: time.Now, Lease: testLease}
	for _, c := range change {
		c(p)
	}
	ctx, cancel := context.WithCancel(h.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			h.t.Errorf("Run: got %v, want nil", err)
		}
	}
}

func (h *probeHarness) Destination(_ context.Context, of eventhook.Destination) (outbound.Destination, error) {
	h.probeStore.mu.Lock()
	defer h.probeStore.mu.Unlock()
	return outbound.SubscriptionDestination(new(h.outages[of.SubscriptionID].of), h), nil
}

func (h *probeHarness) Send(ctx context.Context, d *eventhook.Delivery, _ int) eventhook.Attempt {
	if d.ID == h.broken {
		return eventhook.Attempt{ErrorClass: eventhook.ErrorTransform, Error: "transform: no"}
	}
	h.mu.Lock()
	if h.busy {
		h.mu.Unlock()
		return eventhook.Attempt{ErrorClass: eventhook.ErrorBusy, Error: "transform: busy"}
	}
	h.sent = append(h.sent, time.Since(h.began))
	takes, a := h.takes, eventhook.Attempt{StatusCode: h.status}
	h.mu.Unlock()
	select {
	case <-time.After(takes):
	case <-ctx.Done():
	}
	if a.StatusCode >= 400 {
		a.ErrorClass, a.Error = eventhook.ErrorHTTP5xx, "no"
	}
	return a
}

func (h *probeHarness) Started(*eventhook.Delivery, time.Duration)                           {}
func (h *probeHarness) Attempted(eventhook.ErrorClass, time.Duration)                        {}
func (h *probeHarness) SettledDeliveries([]*outbound.DeliverySettlement, int, time.Duration) {}

func (h *probeHarness) Probed(result outbound.ProbeResult) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.results = append(h.results, result)
}

// answer sets the answer of the receiver.
func (h *probeHarness) answer(status int, takes time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.status, h.takes = status, takes
}

// advance advances the time to after since the beginning.
func (h *probeHarness) advance(after time.Duration) {
	time.Sleep(after - time.Since(h.began))
	synctest.Wait()
}

func (h *probeHarness) wantSent(claim string, want ...time.Duration) {
	h.t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if !slices.Equal(h.sent, want) {
		h.t.Errorf("%s: requests were sent after %v, want %v", claim, h.sent, want)
	}
}

func TestOneOfTwoInstancesProbesUntilTheReceiverAnswers(t *testing.T) {
	runProberTest(t, func(h *probeHarness) {
		defer h.start()()
		defer h.start()()
		id, _ := h.disable(2, 1)
		h.advance(140 * time.Minute)
		times := []time.Duration{time.Minute, 5 * time.Minute, 15 * time.Minute, 75 * time.Minute, 135 * time.Minute}
		h.wantSent("during the outage", times...)
		h.answer(204, 0)
		h.advance(10 * time.Hour)
		h.wantSent("after it", append(times, 195*time.Minute)...)
		if got := h.statuses(id); !h.isActive(id) || got[0] != eventhook.DeliverySuccess || got[1] != eventhook.DeliveryDead {
			t.Errorf("the subscription is active: %t, with deliveries %v, want it active and the first delivery sent", h.isActive(id), got)
		}
	})
}

func TestEnablingASubscriptionProbesItAtOnce(t *testing.T) {
	runProberTest(t, func(h *probeHarness) {
		defer h.start()()
		id, _ := h.disable(1, 0)
		h.advance(30 * time.Second)
		h.enable(id)
		h.advance(time.Minute)
		h.wantSent("after enabling", 31*time.Second)
	})
}

// A receiver answers late. Another subscription is probed meanwhile.
func TestASlowReceiverDoesNotStopOtherProbes(t *testing.T) {
	runProberTest(t, func(h *probeHarness) {
		defer h.start()()
		h.answer(204, 50*time.Second)
		h.disable(1, 0)
		h.advance(30 * time.Second)
		h.disable(1, 0)
		h.advance(5 * time.Minute)
		h.wantSent("both", time.Minute, 90*time.Second)
	})
}

func TestAStopStoresTheProbeInProgress(t *testing.T) {
	runProberTest(t, func(h *probeHarness) {
		stop := h.start()
		h.answer(204, 2*time.Second)
		id, _ := h.disable(1, 0)
		h.advance(61 * time.Second)
		stop()
		if got := h.statuses(id); !h.isActive(id) || got[0] != eventhook.DeliverySuccess {
			t.Errorf("the subscription is active: %t, with deliveries %v, want it active with its delivery sent", h.isActive(id), got)
		}
	})
}

func TestAnInstanceThatSendsNothingProbesNothing(t *testing.T) {
	runProberTest(t, func(h *probeHarness) {
		defer h.start(func(p *outbound.Prober) { p.IsOff = true })()
		h.disable(1, 0)
		h.advance(time.Hour)
		h.wantSent("none")
	})
}

func TestAProbeTriesTenRejectedDeliveries(t *testing.T) {
	runProberTest(t, func(h *probeHarness) {
		stop := h.start()
		h.answer(422, 0)
		id, _ := h.disable(12, 0)
		h.advance(time.Minute)
		stop()
		h.wantSent("rejected", slices.Repeat([]time.Duration{time.Minute}, 10)...)
		if !slices.Equal(h.results, []outbound.ProbeResult{outbound.ProbeRejected}) || h.isActive(id) {
			t.Errorf("got results %v, want %s", h.results, outbound.ProbeRejected)
		}
	})
}

// The transform fails for one event. The receiver has answered again meanwhile.
func TestAProbePassesOverAnEventThatTheTransformCannotHandle(t *testing.T) {
	runProberTest(t, func(h *probeHarness) {
		id, list := h.disable(2, 1)
		h.broken = list[0]
		h.answer(204, 0)
		defer h.start()()
		h.advance(2 * time.Minute)
		if got := h.statuses(id); !h.isActive(id) || got[0] != eventhook.DeliveryDead || got[1] != eventhook.DeliverySuccess {
			t.Errorf("the subscription is active: %t, with deliveries %v, want it active and the second delivery sent", h.isActive(id), got)
		}
	})
}

// A probe whose transform has no time is repeated soon, not with the next one, hours later.
func TestABusyTransformDelaysAProbeBySeconds(t *testing.T) {
	runProberTest(t, func(h *probeHarness) {
		id, _ := h.disable(1, 1)
		h.busy = true
		h.answer(204, 0)
		defer h.start()()
		h.advance(30 * time.Minute)
		h.mu.Lock()
		h.busy = false
		h.mu.Unlock()
		h.advance(30*time.Minute + 2*time.Second)
		h.wantSent("after the time for transforms", 30*time.Minute+time.Second)
		if !h.isActive(id) {
			t.Error("the subscription is not active")
		}
	})
}

// A receiver can keep a probe busy for minutes. A tenant with many such receivers delays the
// probes of another tenant by seconds.
func TestSlowProbesDoNotDelayAnotherTenant(t *testing.T) {
	runProberTest(t, func(h *probeHarness) {
		for range 300 {
			h.disable(10, 0)
			time.Sleep(time.Millisecond) // another id
		}
		other, _ := h.disable(1, 0)
		h.probeStore.mu.Lock()
		h.outages[other].of.TenantID = eventhook.NewID[eventhook.Tenant](time.Now())
		h.outages[other].nextProbe = time.Now().Add(2 * time.Minute)
		h.probeStore.mu.Unlock()
		h.status, h.takes = 422, 59*time.Second
		stop := h.start()
		time.Sleep(150 * time.Second)
		h.probeStore.mu.Lock()
		began := h.outages[other].probeUntil.Add(-testLease - 10*time.Minute).Sub(h.began)
		h.probeStore.mu.Unlock()
		if began < 2*time.Minute || began > 2*time.Minute+10*time.Second {
			t.Errorf("the other tenant's probe began after %s, want about 2m0s", began)
		}
		stop()
	})
}
