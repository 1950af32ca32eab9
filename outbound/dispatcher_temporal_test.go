//go:build temporal

package outbound_test

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/egress"
	"github.com/eventhook/eventhook/outbound/brokers"
	"github.com/eventhook/eventhook/outbound/temporal"
	"github.com/eventhook/eventhook/targets"
)

// Temporal is down for an hour. It has started the first workflows, and did not acknowledge them. With
// the retry policy that docs/targets.md names, no delivery dies, each workflow starts once, and the
// server gets few connections while it is down.
func TestTemporalIsDownForAnHour(t *testing.T) {
	const settings = `{"type":"workflow","workflow_kind":"pay","engine":"temporal","address":"temporal.example:7233",
		"namespace":"acme","tls":false,
		"retry":{"max_retries":25,"initial_delay_ms":10000,"backoff_multiplier":2,"max_delay_ms":300000}}`
	read, faults := targets.Parse([]byte(settings), nil)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	runDispatcherTest(t, func(t *testing.T, w *dispatcherHarness) {
		compiled, err := targets.New(read, targets.Deps{})
		if err != nil {
			t.Fatal(err)
		}
		server := &temporalFake{Client: egress.New(egress.Policy{}),
			workflows: map[string]string{}, incoming: make(chan net.Conn)}
		connections := brokers.New(brokers.Deps{Dialer: server, Name: "eventhook/test", Now: time.Now})
		tenant := newTenant()
		to, err := temporal.Target(connections, tenant, compiled.(*targets.Temporal))
		if err != nil {
			t.Fatal(err)
		}
		ctx, end := context.WithCancel(context.Background())
		var running sync.WaitGroup
		running.Go(func() { _ = connections.Run(ctx) })
		s := w.subscribe(tenant, 0, nil, func(s *eventhook.Subscription) { s.Retry = *to.Retry })
		counted := &countedTransport{Transport: to.Transport, statuses: map[int]int{}}
		w.receivers[s.ID].transport = counted
		server.start()
		i := w.start()

		i.publish(s, 20)
		w.advance(time.Second)
		w.want(s, "before the outage", statuses{success: 20})

		server.mu.Lock()
		server.isSilent = true
		server.mu.Unlock()
		i.publish(s, 10)
		w.advance(time.Second)
		server.stop()
		started, dials := len(server.workflows), server.dials
		const minutes = 60
		for range minutes {
			i.publish(s, 2)
			w.advance(time.Minute)
		}
		if n := w.counts(s.ID); n[dead] != 0 || n[success] != 20 {
			t.Errorf("during the outage: got deliveries %v, want no dead one and no further success", n)
		}
		if n := server.dials - dials; n < minutes || n > 10+3*minutes {
			t.Errorf("the server was dialled %d times in an hour, want a probe every 30 s", n)
		}
		if len(server.workflows) != started || started <= 20 {
			t.Errorf("%d workflows had started before the outage, %d at its end: want more than 20, and no change",
				started, len(server.workflows))
		}

		server.start()
		w.advance(6 * time.Minute)
		w.want(s, "after the outage", statuses{success: 20 + 10 + 2*minutes})
		if n := len(server.workflows); n != 20+10+2*minutes {
			t.Errorf("%d workflows have started, want one for each of the %d deliveries", n, 20+10+2*minutes)
		}
		if n := counted.statuses[eventhook.StatusExisted]; n != 0 {
			t.Errorf("%d starts were skipped, want that Temporal recognizes each repetition by the id of its request", n)
		}
		i.stop()
		end()
		running.Wait()
		server.stop()
	})
}
