package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/eventhook/eventhook/verify"
)

// demoLoopback is the network to which the gateway of the demo may deliver. By
// default a gateway does not deliver to loopback and private addresses.
const demoLoopback = "127.0.0.1/32"

// subscriber is a service that receives the tenant's events. It verifies
// each request with its signing secret.
type subscriber struct {
	verifier verify.Verifier
	received chan receipt
}

// receipt is one request that a subscriber received.
type receipt struct {
	event, eventType, body string
	failure                string // why the verification failed; "" if the request is verified
}

// ServeHTTP verifies a request and answers it with 204 or 401.
func (s subscriber) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	const maxBody = 1 << 20
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		http.Error(w, "the body could not be read", http.StatusBadRequest)
		return
	}
	got := receipt{event: r.Header.Get("X-Eventhook-Event-Id"), eventType: r.Header.Get("X-Eventhook-Event-Type"), body: string(body)}
	status := http.StatusNoContent
	if err := s.verifier.Verify(r.Context(), &verify.Request{Method: r.Method, Header: r.Header, Body: body, At: time.Now()}); err != nil {
		got.failure, status = verify.RefusalText(err), http.StatusUnauthorized
	}
	w.WriteHeader(status)
	select {
	case s.received <- got:
	default: // the demo needs one request only
	}
}

// publishedReachesSubscriber creates a subscription for a receiver of the demo,
// publishes an event, and fails unless the receiver gets the event, signed and with
// unchanged data.
func (d *demo) publishedReachesSubscriber(ctx context.Context) (err error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	secret, err := d.subscribe(ctx, l.Addr())
	if err != nil {
		return errors.Join(err, l.Close())
	}
	received, stop, err := receiveAt(l, secret)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	defer func() { err = errors.Join(err, stop(context.WithoutCancel(ctx))) }()
	event, err := d.publish(ctx)
	if err != nil {
		return err
	}
	select {
	case got := <-received:
		return d.checkReceipt(got, event)
	case <-ctx.Done():
		return fmt.Errorf("the subscriber did not receive the event: %w", ctx.Err())
	}
}

// receiveAt starts a receiver that verifies with the secret. stop waits for running
// requests.
func receiveAt(l net.Listener, secret string) (received <-chan receipt, stop func(context.Context) error, err error) {
	const readTimeout, stopTimeout = 10 * time.Second, 5 * time.Second
	verifier, err := verify.New(verify.Config{Type: "standard_webhooks", Secrets: []string{secret}}, nil)
	if err != nil {
		return nil, nil, err
	}
	s := subscriber{verifier: verifier, received: make(chan receipt, 1)}
	server := &http.Server{Handler: s, ReadHeaderTimeout: readTimeout, ReadTimeout: readTimeout}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(l) // until stop closes it
	}()
	return s.received, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, stopTimeout)
		defer cancel()
		defer func() { <-ended }()
		return errors.Join(server.Shutdown(ctx), server.Close())
	}, nil
}

func (d *demo) subscribe(ctx context.Context, at net.Addr) (secret string, err error) {
	var created struct {
		SigningSecret string `json:"signing_secret"`
	}
	url := "http://" + at.String() + "/hooks"
	err = d.client.call(ctx, "POST", "/subscriptions", map[string]any{"name": "billing", "url": url, "event_types": []string{"invoice.*"}}, 201, &created)
	if err == nil {
		d.print("billing   subscribed to invoice.* at %s (a private address, which the demo's configuration allows: %s)", url, demoLoopback)
	}
	return created.SigningSecret, err
}

// demoInvoice has a number that would become 42 if the gateway parsed and encoded it.
const demoInvoice = `{"invoice":"in_1001","amount":42.00}`

func (d *demo) publish(ctx context.Context) (event string, err error) {
	var created struct {
		EventID    string `json:"event_id"`
		Deliveries int
	}
	body := map[string]any{"event_type": "invoice.paid", "data": json.RawMessage(demoInvoice)}
	if err := d.client.call(ctx, "POST", "/events", body, 202, &created); err != nil {
		return "", err
	}
	if created.Deliveries != 1 {
		return "", fmt.Errorf("the published event has %d deliveries, want 1", created.Deliveries)
	}
	d.print("acme      published invoice.paid: 202, one delivery")
	return created.EventID, nil
}

// checkReceipt fails unless a request has the published event.
func (d *demo) checkReceipt(got receipt, event string) error {
	if got.failure != "" {
		return fmt.Errorf("the subscriber could not verify the request: %s", got.failure)
	}
	var body struct{ Data struct{ Amount json.Number } }
	if err := json.Unmarshal([]byte(got.body), &body); err != nil || got.event != event || got.eventType != "invoice.paid" || body.Data.Amount != "42.00" {
		return fmt.Errorf("want event %s with %s, got %s of %s with %s", event, demoInvoice, got.event, got.eventType, got.body)
	}
	d.print("billing   received and verified it: %s, amount %s unchanged", got.eventType, body.Data.Amount)
	return nil
}
