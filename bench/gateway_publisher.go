package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/bench/seed"
)

// The types of published events, and the target that publishes an event for a webhook.
const (
	eventCreated = "bench.created"
	eventRouted  = "bench.pushed"
	publishRoute = `{type: publish, event_type: ` + eventRouted + `}`
)

// oneSourceConfig returns a tenant with one source, whose route has the targets.
func oneSourceConfig(targets string) string {
	return `
tenants:
  - slug: ` + benchTenant + `
    sources:
      - slug: ` + benchSource + `
        provider: github
        secrets: ["` + secret + `"]
        ` + unlimitedSettings + `
        routes:
          - {name: pushes, filter_event_types: [push], targets: [` + targets + `]}
`
}

// toLoopback is the setting that allows deliveries to the sink.
const toLoopback = "EVENTHOOK_OUTBOUND_ALLOW_PRIVATE_NETWORKS=true"

// publisher is a gateway with the admin key of its API. It may deliver to the sink.
type publisher struct {
	*gateway
	key string // admin key
}

// publisher starts a gateway whose route publishes each webhook as an event.
func (r *run) publisher(ctx context.Context, name string, env ...string) (*publisher, error) {
	return r.publisherOf(ctx, name, publishRoute, env...)
}

// publisherOf starts a gateway whose route has the targets.
func (r *run) publisherOf(ctx context.Context, name, targets string, env ...string) (*publisher, error) {
	own := *r
	own.file = filepath.Join(r.dir, name+".yaml")
	if err := os.WriteFile(own.file, []byte(oneSourceConfig(targets)), 0o600); err != nil {
		return nil, err
	}
	g, err := own.gateway(ctx, name, append(env, toLoopback)...)
	if err != nil {
		return nil, err
	}
	key, err := os.ReadFile(filepath.Join(g.dir, "admin.key"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // no file if the key is in a variable
		g.stop()
		return nil, err
	}
	return &publisher{g, strings.TrimSpace(string(key))}, nil
}

// publishRequests returns the requests that publish events of a type.
func (p *publisher) publishRequests(eventType string) requestSpec {
	return requestSpec{address: p.to.address, paths: []string{tenantAPI + "/events"}, eventType: eventType, key: p.key}
}

// tenantAPI is the path of the tenant's API.
const tenantAPI = "/api/tenants/" + benchTenant + "/eventhook"

// call calls the API of the tenant. answer may be nil.
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
	got, err := successBody(http.DefaultClient, r)
	if err != nil || answer == nil {
		return err
	}
	return json.Unmarshal(got, answer)
}

// subscription is the body of a request that creates a subscription.
type subscription struct {
	Name                 string     `json:"name"`
	URL                  string     `json:"url"`
	EventTypes           []string   `json:"event_types"`
	MaxInFlight          int        `json:"max_in_flight,omitempty"`
	OrderedBy            string     `json:"ordered_by,omitempty"`
	TargetLabels         []string   `json:"target_labels,omitempty"`
	ScopeFilter          []string   `json:"scope_filter,omitempty"`
	Transform            *jmespath  `json:"transform,omitempty"`
	TimeoutSeconds       int        `json:"timeout_seconds,omitempty"`
	DisableAfterFailures *int       `json:"disable_after_failures,omitempty"`
	Retry                *slowRetry `json:"retry,omitempty"`
}

// jmespath is a transform of the type jmespath.
type jmespath struct {
	Type       string `json:"type"`
	Expression string `json:"expression"`
}

// slowRetry is a retry policy that postpones retries until after the measurement.
type slowRetry struct {
	MaxRetries     int `json:"max_retries"`
	InitialDelayMS int `json:"initial_delay_ms"`
}

// silentSubscription returns a subscription for a receiver that never answers. It is
// never disabled.
func silentSubscription(url string, eventTypes ...string) subscription {
	const patience, retries, delay = 5, 10, 60_000
	return subscription{Name: "dead", URL: url, EventTypes: eventTypes, TimeoutSeconds: patience, DisableAfterFailures: new(0), Retry: &slowRetry{retries, delay}}
}

// createSubscription creates a subscription and returns its id.
func (p *publisher) createSubscription(ctx context.Context, s subscription) (id string, err error) {
	var created struct{ ID string }
	err = p.call(ctx, http.MethodPost, "/subscriptions", s, &created)
	return created.ID, err
}

// insertDue inserts due deliveries to a subscription by SQL.
func (p *publisher) insertDue(ctx context.Context, subscription string, number int) error {
	id, err := eventhook.ParseID[eventhook.Subscription](subscription)
	if err != nil {
		return err
	}
	var tenant [16]byte
	if err := p.stats.conn.QueryRow(ctx, `SELECT id FROM eventhook.tenant WHERE slug = $1`, benchTenant).Scan(&tenant); err != nil {
		return err
	}
	return seed.InsertDeliveries(ctx, p.stats.conn, tenant, eventCreated, body, seed.DueBacklog(id, number))
}

// startSecond starts another gateway on the database of the first.
func (r *run) startSecond(ctx context.Context, first *publisher, env ...string) (*publisher, error) {
	dsn := "postgres://eventhook@/eventhook?sslmode=disable&host=" + filepath.Join(first.dir, "postgres")
	p, address, err := start(ctx, gatewayReady, r.binary, append(env, toLoopback, "DATABASE_URL="+dsn),
		"serve", "--listen", "127.0.0.1:0", "--management-listen", "127.0.0.1:0", "--log-level", "warn")
	if err != nil {
		return nil, err
	}
	g := &gateway{p, first.dir, requestSpec{address: address, paths: []string{benchPath}}, first.stats}
	return &publisher{g, first.key}, nil
}
