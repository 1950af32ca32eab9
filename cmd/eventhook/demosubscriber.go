package main

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

// demoLoopback is what the demo's configuration allows the gateway to deliver
// to: this host, which is refused otherwise like every private network.
const demoLoopback = "127.0.0.1/32"

// demoSubscriber is a service that wants the tenant's events. It believes
// nothing that is not signed with its secret.
type demoSubscriber struct {
	signed   []signature
	received chan demoReceipt
}

// demoReceipt is what came with one request.
type demoReceipt struct {
	event, kind, body string
	why               string // it is not verified; "" if it is
}

// ServeHTTP takes one request.
func (s demoSubscriber) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, mostReceived))
	if err != nil {
		http.Error(w, "the body could not be read", http.StatusBadRequest)
		return
	}
	a := arrive(r, body, time.Now())
	got := demoReceipt{event: a.EventID, kind: a.EventType, body: string(body)}
	status := http.StatusNoContent
	if got.why = judge(r.Context(), s.signed, &verify.Request{Method: r.Method, Header: r.Header, Body: body, At: a.At}).why; got.why != "" {
		status = http.StatusUnauthorized
	}
	w.WriteHeader(status)
	select {
	case s.received <- got:
	default: // one is enough
	}
}

// publishedReachesSubscriber subscribes a service of the demo's own, publishes
// an event, and holds that it comes, signed and to the digit.
func (d *demo) publishedReachesSubscriber(ctx context.Context) (err error) {
	l, err := listenTo(ctx, "127.0.0.1", 0)
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
		return d.holdReceipt(got, event)
	case <-ctx.Done():
		return fmt.Errorf("the event did not reach its subscriber: %w", ctx.Err())
	}
}

// receiveAt starts a subscriber that knows a secret. stop lets it answer what
// has come.
func receiveAt(l net.Listener, secret string) (received <-chan demoReceipt, stop func(context.Context) error, err error) {
	const tolerance = 300
	signed, err := newSignatures([]string{secret}, nil, tolerance)
	if err != nil {
		return nil, nil, err
	}
	s := demoSubscriber{signed: signed, received: make(chan demoReceipt, 1)}
	server := &http.Server{Handler: s, ReadHeaderTimeout: receiveHeaderTimeout, ReadTimeout: receiveReadTimeout}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(l) // until it is closed
	}()
	return s.received, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, receiveStopTimeout)
		defer cancel()
		defer func() { <-ended }()
		return errors.Join(server.Shutdown(ctx), server.Close())
	}, nil
}

func (d *demo) subscribe(ctx context.Context, at net.Addr) (secret string, err error) {
	var made struct {
		SigningSecret string `json:"signing_secret"`
	}
	url := "http://" + at.String() + "/hooks"
	err = d.client.call(ctx, "POST", "/subscriptions", map[string]any{"name": "billing", "url": url, "event_types": []string{"invoice.*"}}, 201, &made)
	if err == nil {
		d.tell("billing   subscribed to invoice.* at %s (loopback is private: the demo's configuration allows %s)", url, demoLoopback)
	}
	return made.SigningSecret, err
}

// demoInvoice has a number that would come as 42 if anybody parsed it on its way.
const demoInvoice = `{"invoice":"in_1001","amount":42.00}`

func (d *demo) publish(ctx context.Context) (event string, err error) {
	var made struct {
		EventID    string `json:"event_id"`
		Deliveries int
	}
	body := map[string]any{"event_type": "invoice.paid", "data": json.RawMessage(demoInvoice)}
	if err := d.client.call(ctx, "POST", "/events", body, 202, &made); err != nil {
		return "", err
	}
	if made.Deliveries != 1 {
		return "", fmt.Errorf("the published event has %d deliveries, want 1", made.Deliveries)
	}
	d.tell("acme      published invoice.paid: 202, one delivery")
	return made.EventID, nil
}

func (d *demo) holdReceipt(got demoReceipt, event string) error {
	if got.why != "" {
		return fmt.Errorf("the subscriber could not verify what came: %s", got.why)
	}
	var body struct{ Data struct{ Amount json.Number } }
	if err := json.Unmarshal([]byte(got.body), &body); err != nil || got.event != event || got.kind != "invoice.paid" || body.Data.Amount != "42.00" {
		return fmt.Errorf("want event %s with %s, got %s of %s with %s", event, demoInvoice, got.event, got.kind, got.body)
	}
	d.tell("billing   got it signed, and verified it: %s, amount %s to the digit", got.kind, body.Data.Amount)
	return nil
}
