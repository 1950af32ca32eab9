package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/eventhook/eventhook/configs"
	"github.com/eventhook/eventhook/ingest"
	"github.com/eventhook/eventhook/internal/cli/clitest"
	"github.com/eventhook/eventhook/internal/pgtest"
)

// cluster is a process for each role, on one database, with the receiver of an http target and
// of a subscription.
type cluster struct {
	t                            *testing.T
	dsn                          string
	ingest, api, route, dispatch *instance
	receiver, subscriber         *subscriber
}

func startCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{t: t, dsn: pgtest.New(t), receiver: newSubscriber(t), subscriber: newSubscriber(t)}
	c.api = startCalling(t, c.dsn, "{type: task, task_kind: build}, {type: publish, event_type: pushed}, {type: http, url: '"+c.receiver.url+"'}",
		"EVENTHOOK_ROLES=api")
	c.ingest, c.route, c.dispatch = c.start("ingest"), c.start("route"), c.start("dispatch")
	if status := c.api.call(http.MethodPost, "/subscriptions", map[string]any{"name": "pushed", "url": c.subscriber.url, "event_types": []string{"pushed"}}, nil); status != http.StatusCreated {
		t.Fatalf("the subscription was answered %d, want 201", status)
	}
	return c
}

// start starts an instance with a role.
func (c *cluster) start(role string) *instance {
	c.t.Helper()
	return startCommand(c.t, databaseEnv(c.dsn, "EVENTHOOK_OUTBOUND_ALLOW_PRIVATE_NETWORKS=true"), "serve", "--roles", role)
}

// push sends a webhook and returns its event.
func (c *cluster) push(id string) (event string) {
	c.t.Helper()
	status, answer, err := c.ingest.push(c.t.Context(), id)
	if err != nil || status != http.StatusOK {
		c.t.Fatalf("the webhook %s was answered %d, %v; want 200", id, status, err)
	}
	return answer.EventID
}

// wantDelivered waits until both receivers have had n events.
func (c *cluster) wantDelivered(n int) {
	c.t.Helper()
	clitest.Eventually(c.t, fmt.Sprintf("both receivers have %d events", n), func() bool {
		return c.receiver.count(eventsOf) == n && c.subscriber.count(eventsOf) == n
	})
}

func TestInstancesOfOneRoleEachHandleAWebhookTogether(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	event := c.push("1")
	c.wantDelivered(1)
	var got struct{ Status string }
	clitest.Eventually(t, "the API shows the event as delivered", func() bool {
		return c.api.call(http.MethodGet, "/events/"+event, nil, &got) == http.StatusOK && got.Status == "delivered"
	})
	var work struct{ Items []claimedItem }
	if status := c.api.call(http.MethodPost, "/work/claim", map[string]any{"queue": "default", "lease_seconds": 60}, &work); status != http.StatusOK || len(work.Items) != 1 {
		t.Errorf("a worker claims %d items (%d), want 1", len(work.Items), status)
	}
	conn := connect(t, c.dsn)
	if n := count(t, conn, `SELECT count(*) FROM eventhook.event WHERE origin = 'source' AND lease_token = 0`); n != 0 {
		t.Error("the event has no lease: it was planned by ingest, want by route")
	}

	c.route.kill()
	event = c.push("2")
	if n := count(t, conn, `SELECT count(*) FROM eventhook.event WHERE id = $1 AND status = 'pending' AND due_at <= now()`, event); n != 1 {
		t.Error("without route, the event is not due now")
	}
	if status := c.api.call(http.MethodPost, "/events", map[string]any{"event_type": "pushed", "data": map[string]any{}}, nil); status/100 != 2 {
		t.Errorf("publishing was answered %d, want 2xx", status)
	}
	clitest.Eventually(t, "the published event is delivered without route", func() bool { return c.subscriber.count(eventsOf) == 2 })
	c.route = c.start("route")
	clitest.Eventually(t, "the event is planned and delivered", func() bool {
		return c.receiver.count(eventsOf) == 2 && c.subscriber.count(eventsOf) == 3
	})

	c.dispatch.kill()
	event = c.push("3")
	clitest.Eventually(t, "the event is planned without dispatch", func() bool {
		return count(t, conn, `SELECT count(*) FROM eventhook.delivery WHERE status = 'pending' AND lease_token = 0 AND due_at <= now()
			AND (event_id = $1 OR event_id IN (SELECT id FROM eventhook.event WHERE correlation_id = $1::text))`, event) == 2
	})
	c.api.kill()
	c.push("4")
	c.dispatch = c.start("dispatch")
	clitest.Eventually(t, "all events are delivered without the API", func() bool {
		return c.receiver.count(eventsOf) == 4 && c.subscriber.count(eventsOf) == 5
	})
}

func TestAbsentRolesAnswer404(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	const unknown = "/unknown"
	paths := map[string][]string{
		"ingest": {ingest.Path("acme", "github"), ingest.FastlyPath},
		"api":    {"/api/tenants/acme/eventhook/sources", "/docs", "/openapi.json"},
	}
	for role, i := range map[string]*instance{"ingest": c.ingest, "api": c.api, "route": c.route, "dispatch": c.dispatch} {
		want := i.get(t, unknown)
		if !strings.HasPrefix(want, "404 ") {
			t.Errorf("%s: %s is answered %s, want 404", role, unknown, want)
		}
		for of, list := range paths {
			for _, path := range list {
				if got := i.get(t, path); (got == want) != (of != role) {
					t.Errorf("%s: %s is answered %.100s", role, path, got)
				}
			}
		}
		var info struct{ Roles []string }
		if err := json.Unmarshal([]byte(i.management(t, "/info")), &info); err != nil || !slices.Equal(info.Roles, []string{role}) {
			t.Errorf("/info of %s has roles %v, %v", role, info.Roles, err)
		}
		for _, other := range configs.Roles() {
			if got, want := i.metric(`role{role="`+other+`"}`) == 1, other == role; got != want {
				t.Errorf("the metric of the role %s of %s is %t, want %t", other, role, got, want)
			}
		}
		if !strings.Contains(i.logs.String(), "roles="+role) {
			t.Errorf("%s does not log its role", role)
		}
		if got := i.ready(); !strings.HasPrefix(got, "200 ") {
			t.Errorf("%s: /health/ready is answered %s", role, got)
		}
	}
}

// get returns the status and the body of a path of the public listener.
func (i *instance) get(t *testing.T, path string) string {
	t.Helper()
	response, err := testClient.Get(i.url + path)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%d %s", response.StatusCode, body)
}

// management returns the body of a path of the management listener.
func (i *instance) management(t *testing.T, path string) string {
	t.Helper()
	response, err := testClient.Get(strings.TrimSuffix(i.metrics, "/metrics") + path)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}
