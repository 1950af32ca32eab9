package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook/internal/cli/clitest"
	"github.com/eventhook/eventhook/internal/cli/send"
)

// startDelivering starts a gateway that may deliver to this host.
func startDelivering(t *testing.T, dsn string, env ...string) *instance {
	t.Helper()
	return startInstance(t, dsn, append([]string{"EVENTHOOK_OUTBOUND_ALLOW_PRIVATE_NETWORKS=true"}, env...)...)
}

// subscriber is a receiver that verifies and counts events.
type subscriber struct {
	url string

	mu        sync.Mutex
	secrets   []string         // of the signatures; requests are not verified without secrets
	respond   http.HandlerFunc // may hang; nil answers 204
	delivered map[string]int   // number of 204 answers by delivery
	events    map[string]bool  // answered 204
	keys      map[string]int   // number of 204 answers by Idempotency-Key
	requests  int              // received
	refused   int              // because they were not verified
	both      int              // requests with two signatures
}

func newSubscriber(t *testing.T, secrets ...string) *subscriber {
	s := &subscriber{secrets: secrets, delivered: map[string]int{}, events: map[string]bool{}, keys: map[string]int{}}
	server := httptest.NewServer(s)
	t.Cleanup(func() {
		server.CloseClientConnections() // some requests may hang
		server.Close()
	})
	s.url = server.URL
	return s
}

func (s *subscriber) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if respond := s.countRequest(r, string(body)); respond != nil {
		respond(w, r)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// countRequest counts a request and returns the handler that answers it, nil for 204.
func (s *subscriber) countRequest(r *http.Request, body string) http.HandlerFunc {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests++
	signatures := strings.Fields(r.Header.Get("webhook-signature"))
	if len(signatures) > 1 {
		s.both++
	}
	switch {
	case s.respond != nil:
		return s.respond
	case len(s.secrets) > 0 && !s.verified(r, body, signatures):
		s.refused++
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }
	}
	s.recordDelivery(r)
	return nil
}

// countDelivery counts a request that is answered 204.
func (s *subscriber) countDelivery(r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recordDelivery(r)
}

func (s *subscriber) recordDelivery(r *http.Request) {
	s.delivered[r.Header.Get("X-Eventhook-Delivery-Id")]++
	s.events[r.Header.Get("X-Eventhook-Event-Id")] = true
	s.keys[r.Header.Get("Idempotency-Key")]++
}

func (s *subscriber) verified(r *http.Request, body string, signatures []string) bool {
	for _, secret := range s.secrets {
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
		want := "v1," + base64.StdEncoding.EncodeToString(hmacOf(key, r.Header.Get("webhook-id")+"."+r.Header.Get("webhook-timestamp")+"."+body))
		for _, got := range signatures {
			if err == nil && got == want {
				return true
			}
		}
	}
	return false
}

// setHandler sets the handler of the next requests; nil means 204.
func (s *subscriber) setHandler(respond http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.respond = respond
}

// setSecrets replaces the secrets.
func (s *subscriber) setSecrets(secrets ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.secrets = secrets
}

// count reads one of the counters.
func (s *subscriber) count(of func(*subscriber) int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return of(s)
}

func requestsOf(s *subscriber) int   { return s.requests }
func eventsOf(s *subscriber) int     { return len(s.events) }
func deliveriesOf(s *subscriber) int { return len(s.delivered) }
func keysOf(s *subscriber) int       { return len(s.keys) }
func refusedBy(s *subscriber) int    { return s.refused }
func bothOf(s *subscriber) int       { return s.both }

// repeatedOf returns the number of requests whose event had been answered 204.
func repeatedOf(s *subscriber) (n int) {
	for _, times := range s.delivered {
		n += times - 1
	}
	return n
}

// wantAll fails the test unless the subscriber got all of the events.
func (s *subscriber) wantAll(t *testing.T, events []string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	missing := 0
	for _, id := range events {
		if !s.events[id] {
			missing++
		}
	}
	if missing > 0 {
		t.Errorf("%d events were answered 202, and %d of them were not delivered", len(events), missing)
	}
}

// hang answers when the test closes it, or when the client closes the connection.
type hang chan struct{}

func (h hang) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	select {
	case <-h:
	case <-r.Context().Done():
	}
}

// quickRetry is a retry policy of unlimited retries with short delays.
const quickRetry = `"retry":{"max_retries":10,"initial_delay_ms":100,"backoff_multiplier":1,"max_delay_ms":1000},"disable_after_failures":0`

// subscribe creates a subscription to one event type. more has further members.
func (i *instance) subscribe(url, eventType, more string) (id, secret string) {
	i.t.Helper()
	if more == "" {
		more = quickRetry
	}
	var created struct {
		ID            string
		SigningSecret string `json:"signing_secret"`
	}
	body := json.RawMessage(fmt.Sprintf(`{"name":%q,"url":%q,"event_types":[%q],%s}`, eventType, url, eventType, more))
	if status := i.call(http.MethodPost, "/subscriptions", body, &created); status != http.StatusCreated {
		i.t.Fatalf("subscribing %s was answered %d, want 201", eventType, status)
	}
	return created.ID, created.SigningSecret
}

// act calls an action of a subscription, such as pause.
func (i *instance) act(subscription, verb string) {
	i.t.Helper()
	if status := i.call(http.MethodPost, "/subscriptions/"+subscription+"/"+verb, struct{}{}, nil); status != http.StatusOK {
		i.t.Fatalf("%s was answered %d, want 200", verb, status)
	}
}

// publish publishes an event with unusual white space in its data.
func (i *instance) publish(ctx context.Context, eventType string) (status int, event string, err error) {
	body := fmt.Sprintf(`{"event_type":%q,"data":{ "amount" : 12.50 }}`, eventType)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, i.url+"/api/tenants/acme/eventhook/events", strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	r.Header.Set("Authorization", "Bearer "+testAdminKey)
	r.Header.Set("Content-Type", "application/json")
	resp, err := testClient.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	var answer struct {
		EventID string `json:"event_id"`
	}
	if err == nil && resp.StatusCode == http.StatusAccepted {
		err = json.NewDecoder(bytes.NewReader(raw)).Decode(&answer)
	}
	return resp.StatusCode, answer.EventID, err
}

// mustPublish publishes events, several concurrently.
func (i *instance) mustPublish(eventType string, number int) (events []string) {
	i.t.Helper()
	var mu sync.Mutex
	var left atomic.Int64
	left.Store(int64(number))
	var senders sync.WaitGroup
	for range min(number, floodSenders) {
		senders.Go(func() {
			for left.Add(-1) >= 0 {
				status, event, err := i.publish(i.t.Context(), eventType)
				if err != nil || status != http.StatusAccepted {
					i.t.Errorf("publishing was answered %d, %v; want 202", status, err)
					return
				}
				mu.Lock()
				events = append(events, event)
				mu.Unlock()
			}
		})
	}
	senders.Wait()
	if len(events) != number {
		i.t.FailNow()
	}
	return events
}

// publishFlood publishes events until it is stopped, and records the answers.
func publishFlood(t *testing.T, to *instance, eventType string) *flood {
	ctx, cancel := context.WithCancel(t.Context())
	f := &flood{cancel: cancel, statuses: map[int]int{}}
	for range floodSenders {
		f.senders.Go(func() {
			for ctx.Err() == nil {
				status, event, err := to.publish(context.WithoutCancel(ctx), eventType)
				f.noteEvent(status, event, err)
			}
		})
	}
	t.Cleanup(f.stop)
	return f
}

func (f *flood) noteEvent(status int, event string, err error) {
	if err == nil && status == http.StatusAccepted {
		status = http.StatusOK // counted like the 200 of a webhook
	}
	f.note(status, send.Answer{EventID: event}, err)
}

// wantAllDelivered waits until no delivery is open. It fails the test unless each of
// the events has a successful delivery and no delivery is stuck.
func wantAllDelivered(t *testing.T, conn *pgx.Conn, events []string) {
	t.Helper()
	clitest.Eventually(t, "no delivery is open", func() bool {
		return count(t, conn, `SELECT count(*) FROM eventhook.delivery WHERE due_at IS NOT NULL`) == 0
	})
	if n := count(t, conn, `SELECT count(*) FROM eventhook.delivery WHERE status IN ('pending', 'acquired', 'failed')`); n > 0 {
		t.Errorf("%d deliveries are stuck: neither due nor ended", n)
	}
	if n := count(t, conn, `SELECT count(DISTINCT event_id) FROM eventhook.delivery WHERE status = 'success' AND event_id = ANY($1::uuid[])`, events); n != len(events) {
		t.Errorf("%d events were answered 202, %d have a delivery that succeeded", len(events), n)
	}
}
