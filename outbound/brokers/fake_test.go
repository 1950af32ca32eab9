package brokers_test

import (
	"context"
	"maps"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/egress"
)

// fakeBroker is a dialer whose connections serve is the other end of.
type fakeBroker struct {
	*egress.Client
	serve func(net.Conn)

	mu    sync.Mutex
	dials int
}

func (b *fakeBroker) DialContext(context.Context, string, string) (net.Conn, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dials++
	client, server := net.Pipe()
	go func() {
		defer server.Close()
		b.serve(server)
	}()
	return client, nil
}

func (b *fakeBroker) connections() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.dials
}

// forever is how long a broker sleeps that does nothing more.
const forever = time.Hour

// withFake calls test in a bubble of synctest, in which time passes at once, with a target that is sent
// to a broker that serve plays.
func withFake(t *testing.T, target map[string]any, serve func(net.Conn), test func(t *testing.T, f *fixture, b *fakeBroker)) {
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(2 * forever) }) // until the broker wakes up and ends
		b := &fakeBroker{Client: egress.New(egress.Policy{}), serve: serve}
		test(t, openBy(t, targetJSON(target, nil), b), b)
	})
}

// targetOf returns members of a target with one more.
func targetOf(members map[string]any, name string, value any) map[string]any {
	members = maps.Clone(members)
	members[name] = value
	return members
}

// all sends n deliveries at once and returns their attempts.
func (f *fixture) all(n int) []eventhook.Attempt {
	attempts := make([]eventhook.Attempt, n)
	var wait sync.WaitGroup
	for i := range attempts {
		wait.Go(func() { attempts[i] = f.send(f.delivery("application/json", order)) })
	}
	wait.Wait()
	return attempts
}

// timesOut fails the test unless a delivery fails after the time of the target.
func (f *fixture) timesOut(after time.Duration) {
	f.Helper()
	a := f.send(f.delivery("application/json", order))
	if a.ErrorClass != eventhook.ErrorTimeout || a.Duration != after {
		f.Errorf("got %q after %s: %s; want a timeout after %s", a.ErrorClass, a.Duration, a.Error, after)
	}
}
