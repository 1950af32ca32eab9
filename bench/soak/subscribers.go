package soak

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eventhook/eventhook/client"
)

// The subscribers in the order of the ledger.
const (
	good = iota
	slow
	failing
	away
)

var kinds = []string{good: "good", slow: "slow", failing: "failing for a while", away: "away for a while"}

const slowness = 100 * time.Millisecond

// subscriber receives events. It may be used concurrently.
type subscriber struct {
	kind    int
	ledger  *ledger
	address string
	id      string // of its subscription
	fails   atomic.Bool

	mu     sync.Mutex
	server *http.Server // nil while its address is closed
}

func startSubscribers(l *ledger) (list []*subscriber, err error) {
	for kind := range kinds {
		s := &subscriber{kind: kind, ledger: l, address: "127.0.0.1:0"}
		list = append(list, s)
		if err := s.open(); err != nil {
			return list, err
		}
	}
	return list, nil
}

// open listens at the address of the subscriber.
func (s *subscriber) open() error {
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", s.address)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.address = l.Addr().String()
	s.server = &http.Server{Handler: s, ReadHeaderTimeout: time.Minute}
	server := s.server
	go func() { _ = server.Serve(l) }() // until close
	return nil
}

// close refuses connections and ends the open ones.
func (s *subscriber) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.server != nil {
		_ = s.server.Close()
		s.server = nil
	}
}

func (s *subscriber) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	n := numberOf(body)
	if s.fails.Load() || err != nil || n < 0 {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	if s.kind == slow {
		time.Sleep(slowness)
	}
	s.ledger.receive(s.kind, n)
	w.WriteHeader(http.StatusNoContent)
}

// subscribe creates the subscriptions. Failures do not disable them. The timeout adds to the lease of a
// delivery, after which another gateway sends it again.
func (r *run) subscribe(ctx context.Context) error {
	for _, s := range r.subs {
		body := fmt.Sprintf(`{"name":%q,"url":"http://%s/","event_types":[%q],"disable_after_failures":0,"max_in_flight":100,"timeout_seconds":%.0f}`,
			kinds[s.kind], s.address, published, r.lease().Seconds())
		created, err := r.api().CreateSubscriptionFrom(ctx, tenant, json.RawMessage(body))
		if err != nil {
			return fmt.Errorf("subscribe: %w", err)
		}
		s.id = created.ID
	}
	return nil
}

// enable sends a probe to a subscriber that is back, as its owner would. Without it, the gateway
// probes after minutes.
func (r *run) enable(ctx context.Context, kind int) error {
	const patience, pause = 30 * time.Second, 200 * time.Millisecond
	for deadline := time.Now().Add(patience); ; time.Sleep(pause) {
		_, err := r.api().EnableSubscription(ctx, tenant, r.subs[kind].id)
		if err == nil || ctx.Err() != nil || time.Now().After(deadline) {
			return err
		}
	}
}

func (r *run) api() *client.Client {
	const timeout = 10 * time.Second
	c, err := client.New(baseURL, adminKey, client.WithHTTPClient(r.fleet.client(1)), client.WithTimeout(timeout))
	if err != nil {
		panic(err) // constant arguments
	}
	return c
}
