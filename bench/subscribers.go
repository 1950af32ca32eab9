package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// The types of published events, and the target that publishes webhooks.
const (
	made         = "bench.made"
	viaRoute     = "bench.pushed"
	publishRoute = `{type: publish, event_type: ` + viaRoute + `}`
)

// oneSource is a tenant with one source whose route has these targets.
func oneSource(targets string) string {
	return `
tenants:
  - slug: ` + benchTenant + `
    sources:
      - slug: ` + benchSource + `
        provider: github
        secrets: ["` + secret + `"]
        ` + limitless + `
        routes:
          - {name: pushes, filter_event_types: [push], targets: [` + targets + `]}
`
}

// toLoopback lets a gateway deliver to the sink.
const toLoopback = "EVENTHOOK_OUTBOUND_ALLOW_PRIVATE_NETWORKS=true"

// publisher is a gateway whose tenant publishes.
type publisher struct {
	*gateway
	key string // the admin's
}

// publisher starts one that may deliver to the sink.
func (r *run) publisher(ctx context.Context, name string, env ...string) (*publisher, error) {
	return r.publisherOf(ctx, name, publishRoute, env...)
}

// publisherOf is publisher with other targets of the source's route.
func (r *run) publisherOf(ctx context.Context, name, targets string, env ...string) (*publisher, error) {
	own := *r
	own.file = filepath.Join(r.dir, name+".yaml")
	if err := os.WriteFile(own.file, []byte(oneSource(targets)), 0o600); err != nil {
		return nil, err
	}
	g, err := own.gateway(ctx, name, append(env, toLoopback)...)
	if err != nil {
		return nil, err
	}
	key, err := os.ReadFile(filepath.Join(g.dir, "admin.key"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // it may be given by a variable
		g.stop()
		return nil, err
	}
	return &publisher{g, strings.TrimSpace(string(key))}, nil
}

// publishes is where events of a type are published.
func (p *publisher) publishes(eventType string) target {
	return target{address: p.to.address, paths: []string{tenantAPI + "/events"}, publishes: eventType, key: p.key}
}

// call calls the tenant's API. answer may be nil.
func (p *publisher) call(ctx context.Context, method, path string, body, answer any) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://"+p.to.address+tenantAPI+path, bytes.NewReader(raw))
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+p.key)
	r.Header.Set("Content-Type", "application/json")
	got, err := answered(http.DefaultClient, r)
	if err != nil || answer == nil {
		return err
	}
	return json.Unmarshal(got, answer)
}

// subscription is what the bench asks of a new one.
type subscription struct {
	Name                 string      `json:"name"`
	URL                  string      `json:"url"`
	EventTypes           []string    `json:"event_types"`
	MaxInFlight          int         `json:"max_in_flight,omitempty"`
	TimeoutSeconds       int         `json:"timeout_seconds,omitempty"`
	DisableAfterFailures *int        `json:"disable_after_failures,omitempty"`
	Retry                *retryLater `json:"retry,omitempty"`
}

// retryLater has what failed wait, and not die, while anybody measures.
type retryLater struct {
	MaxRetries     int `json:"max_retries"`
	InitialDelayMS int `json:"initial_delay_ms"`
}

// deadSubscription never answers, and is not given up.
func deadSubscription(url string, eventTypes ...string) subscription {
	const patience, retries, delay = 5, 10, 60_000
	return subscription{Name: "dead", URL: url, EventTypes: eventTypes, TimeoutSeconds: patience, DisableAfterFailures: new(0), Retry: &retryLater{retries, delay}}
}

// subscribe makes a subscription and returns its id.
func (p *publisher) subscribe(ctx context.Context, s subscription) (id string, err error) {
	var made struct{ ID string }
	err = p.call(ctx, http.MethodPost, "/subscriptions", s, &made)
	return made.ID, err
}

// settled waits until nothing is owed any more, neither of events nor of
// deliveries, and tells how often it has looked.
func (s *stats) settled(ctx context.Context) (looks int, err error) {
	const patience, pause = 5 * time.Minute, 10 * time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for ; ; looks++ {
		var owed bool
		if err := s.conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM eventhook.event WHERE due_at IS NOT NULL)
			OR EXISTS (SELECT FROM eventhook.delivery WHERE due_at IS NOT NULL)`).Scan(&owed); err != nil {
			return looks, fmt.Errorf("wait for deliveries: %w", err)
		}
		if !owed {
			return looks, nil
		}
		time.Sleep(pause)
	}
}
