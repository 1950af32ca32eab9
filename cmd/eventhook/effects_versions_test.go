package main

import (
	"crypto/rand"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook/internal/cli/clitest"
	"github.com/eventhook/eventhook/internal/pgtest"
)

// versioned returns a configuration with two routes of one version: the kind of the
// task equals the type of the published event.
func versioned(version string) string {
	return strings.Replace(testTenants, "{name: pushes, filter_event_types: [push], targets: [{type: task, task_kind: build}]}",
		"{name: first, targets: [{type: task, task_kind: "+version+"}]}\n          - {name: second, targets: [{type: publish, event_type: "+version+"}]}", 1)
}

// versionsOf waits until an event is delivered and returns the versions of the routes
// that planned it.
func versionsOf(t *testing.T, conn *pgx.Conn, event string) string {
	t.Helper()
	clitest.Eventually(t, "the event is delivered", func() bool {
		return count(t, conn, `SELECT count(*) FROM eventhook.event WHERE id = $1::uuid AND status = 'delivered'`, event) == 1
	})
	return strings.Join(texts(t, conn, `SELECT kind FROM eventhook.execution WHERE event_id = $1::uuid
		UNION ALL SELECT event_type FROM eventhook.event WHERE correlation_id = $1::uuid::text`, event), " ")
}

// Both routes change repeatedly, in one transaction, while two gateways accept events.
// Each event follows one version. An event that is sent after a change follows the new
// version.
func TestEveryEventFollowsOneVersionOfItsRoutes(t *testing.T) {
	const changes = 10
	dsn := pgtest.New(t)
	instances := []*instance{startInstance(t, dsn), startInstance(t, dsn)}
	configured(t, dsn)
	files := []string{clitest.WriteFile(t, "a.yaml", versioned("a")), clitest.WriteFile(t, "b.yaml", versioned("b"))}
	apply := func(n int) {
		t.Helper()
		if got := runCommand("apply", "--database", "--prune", "-f", files[n%2]); got.Code != 0 {
			t.Fatalf("apply: got %+v", got)
		}
	}
	apply(0)
	conn := connect(t, dsn)
	loads := []*flood{startFlood(t, instances[0]), startFloodNamed(t, instances[1], "other")}
	for n := range changes {
		apply(n)
		for _, i := range instances {
			event := i.mustPush(rand.Text())
			if got, want := versionsOf(t, conn, event), strings.Repeat("ab"[n%2:n%2+1]+" ", 2); got+" " != want {
				t.Errorf("an event that was sent after change %d follows %q, want %q", n, got, want)
			}
		}
	}
	var answered []string
	for _, load := range loads {
		load.stop()
		answered = append(answered, load.accepted...)
	}
	wantEachProcessedOnce(t, dsn, answered)
	tasks := texts(t, conn, `SELECT event_id::text || ' ' || kind FROM eventhook.execution`)
	wantSame(t, "published events, by event and version", texts(t, conn, `SELECT correlation_id || ' ' || event_type FROM eventhook.event WHERE origin = 'route'`), tasks)
	for _, version := range []string{" a", " b"} {
		if !slices.ContainsFunc(tasks, func(task string) bool { return strings.HasSuffix(task, version) }) {
			t.Errorf("no event follows version%s, want many", version)
		}
	}
	for n, i := range instances {
		if i.planned() == 0 {
			t.Errorf("instance %d planned no event before its commit, want many", n)
		}
	}
}

// A subscription is created, paused, resumed and deleted at one gateway while events
// arrive at another. An event that is sent while the subscription exists has a
// delivery to it, and an event that is sent after its end has none.
func TestSubscriptionsChangeBetweenPlanAndCommit(t *testing.T) {
	t.Parallel()
	const changes = 10
	k := startTargetFixture(t, pgtest.New(t))
	other := k.instance
	k.restart()
	load := startFlood(t, k.instance)
	receiving := newSubscriber(t)
	conn := connect(t, k.dsn)
	deliveries := func(subscription, when string, want int) {
		t.Helper()
		event := k.mustPush(rand.Text())
		clitest.Eventually(t, "the event is planned", func() bool {
			return count(t, conn, `SELECT count(*) FROM eventhook.event WHERE id = $1::uuid AND actions IS NOT NULL`, event) == 1
		})
		if n := count(t, conn, `SELECT count(*) FROM eventhook.delivery d JOIN eventhook.event p ON p.id = d.event_id
			WHERE p.correlation_id = $1::uuid::text AND d.destination_id = $2::uuid`, event, subscription); n != want {
			t.Errorf("%d deliveries of an event that was sent %s, want %d", n, when, want)
		}
	}
	for range changes {
		id, _ := other.subscribe(receiving.url, "pushed", quickRetry)
		deliveries(id, "after it was created", 1)
		other.act(id, "pause")
		deliveries(id, "while it was paused", 1)
		other.act(id, "resume")
		deliveries(id, "after it was resumed", 1)
		if status := other.call(http.MethodDelete, "/subscriptions/"+id, nil, nil); status != http.StatusNoContent {
			t.Fatalf("deleting it was answered %d, want 204", status)
		}
		deliveries(id, "after it was deleted", 0)
	}
	load.stop()
	clitest.Eventually(t, "no delivery is open", func() bool {
		return count(t, conn, `SELECT count(*) FROM eventhook.delivery WHERE status NOT IN ('success', 'dead')`) == 0
	})
	if n := count(t, conn, `SELECT count(*) FROM eventhook.delivery WHERE status = 'dead' AND destination_id = $1::uuid`, k.subscription); n > 0 {
		t.Errorf("%d deliveries to the unchanged subscription are dead, want none", n)
	}
	wantEachProcessedOnce(t, k.dsn, load.accepted)
	if k.planned() == 0 {
		t.Error("no event was planned before its commit, want many")
	}
}
