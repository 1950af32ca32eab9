package main

import (
	"crypto/rand"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/eventhook/eventhook/internal/cli/clitest"
	"github.com/eventhook/eventhook/internal/pgembed"
	"github.com/eventhook/eventhook/internal/pgtest"
)

func TestKilledGatewayLosesNoEffect(t *testing.T) {
	t.Parallel()
	k := startTargetFixture(t, pgtest.New(t))
	load := startFlood(t, k.instance)
	k.wantUnderWay(load)
	k.kill()
	load.stop()
	if n := count(t, connect(t, k.dsn), `SELECT count(*) FROM eventhook.delivery WHERE status = 'acquired'`); n == 0 {
		t.Error("the gateway died with no delivery leased, want some")
	}
	k.receiver.setHandler(nil)
	k.subscriber.setHandler(nil)
	k.restart()
	k.wantAllOnce(load.accepted)
}

func TestDatabaseRestartLosesNoEffect(t *testing.T) {
	t.Parallel()
	for _, fault := range databaseFaults {
		t.Run(fault.name, func(t *testing.T) {
			t.Parallel()
			server := pgtest.NewServer(t)
			k := startTargetFixture(t, server.DSN(pgembed.Database))
			load := startFlood(t, k.instance)
			k.wantUnderWay(load)
			if err := fault.end(t, server); err != nil {
				t.Fatal(err)
			}
			k.receiver.setHandler(nil)
			k.subscriber.setHandler(nil)
			clitest.Eventually(t, "webhooks are answered 500 or 503 without a database", func() bool {
				return load.count(http.StatusInternalServerError)+load.count(http.StatusServiceUnavailable) > 0
			})
			if err := server.Restart(t.Context()); err != nil {
				t.Fatal(err)
			}
			before := load.count(http.StatusOK)
			clitest.Eventually(t, "the gateway recovers by itself", func() bool { return load.count(http.StatusOK) >= before+enough })
			load.stop()
			k.wantAllOnce(load.accepted)
		})
	}
}

// A gateway that stops completes its running requests and releases its other leases:
// no lease remains, and no answered request is repeated.
func TestStoppedGatewayLeavesNoEffectLeased(t *testing.T) {
	t.Parallel()
	k := startTargetFixture(t, pgtest.New(t), "EVENTHOOK_LEASE_SECONDS=600")
	load := startFlood(t, k.instance)
	k.wantUnderWay(load)
	if err := k.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	k.receiver.setHandler(nil)
	k.subscriber.setHandler(nil)
	<-k.done
	load.stop()
	conn := connect(t, k.dsn)
	if n := count(t, conn, `SELECT count(*) FROM eventhook.event WHERE status = 'processing' AND due_at IS NOT NULL`); n > 0 {
		t.Errorf("%d events are still leased after a graceful stop, want none", n)
	}
	if n := count(t, conn, `SELECT count(*) FROM eventhook.delivery WHERE status = 'acquired'`); n > 0 {
		t.Errorf("%d deliveries are still leased after a graceful stop, want none", n)
	}
	k.restart()
	k.wantAllOnce(load.accepted)
	if again := k.receiver.count(repeatedOf) + k.subscriber.count(repeatedOf); again > 0 {
		t.Errorf("%d requests came again after they had been answered 204, want none", again)
	}
}

// The duplicates are in the batch of their original, which is planned before its
// commit.
func TestDuplicateInABatchHasNoEffect(t *testing.T) {
	t.Parallel()
	k := startTargetFixture(t, pgtest.New(t))
	clitest.Eventually(t, "the routes are cached", func() bool { return k.pushedPlanned() })
	const copies = 20
	accepted, duplicates := k.pushAtOnce(t, k.dsn, append(strings.Split(strings.Repeat("the same,", copies), ",")[:copies], "another"))
	if len(accepted) != 2 || duplicates != copies-1 {
		t.Fatalf("%d were accepted and %d were duplicates, want 2 and %d", len(accepted), duplicates, copies-1)
	}
	k.wantAllOnce(accepted)
	if n := count(t, connect(t, k.dsn), `SELECT count(*) FROM eventhook.execution x JOIN eventhook.event e ON e.id = x.event_id WHERE e.status = 'duplicate'`); n > 0 {
		t.Errorf("duplicates created %d tasks, want 0", n)
	}
}

// pushedPlanned pushes an event and reports whether it was planned before its commit.
func (k *targetFixture) pushedPlanned() bool {
	k.t.Helper()
	before := k.planned()
	k.mustPush(rand.Text())
	return k.planned() > before
}

// If the database refuses the effects of one event of a batch, this event is dead and
// has the error. The other events of the batch have their effects.
func TestRefusedEffectsDoNotAffectTheirBatch(t *testing.T) {
	t.Parallel()
	k := startTargetFixture(t, pgtest.New(t))
	clitest.Eventually(t, "the routes are cached", func() bool { return k.pushedPlanned() })
	conn := connect(t, k.dsn)
	if _, err := conn.Exec(t.Context(), `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			IF (SELECT idempotency_key FROM eventhook.event WHERE id = NEW.event_id) = 'refused' THEN
				RAISE check_violation USING MESSAGE = 'refused by the test';
			END IF;
			RETURN NEW;
		END $$;
		CREATE TRIGGER refuse BEFORE INSERT ON eventhook.execution FOR EACH ROW EXECUTE FUNCTION refuse()`); err != nil {
		t.Fatal(err)
	}
	accepted, _ := k.pushAtOnce(t, k.dsn, append(pushIDs("good", 30), "refused"))
	var refused string
	clitest.Eventually(t, "the refused event is dead", func() bool {
		list := texts(t, conn, `SELECT id::text FROM eventhook.event WHERE idempotency_key = 'refused' AND status = 'dead'`)
		if len(list) == 1 {
			refused = list[0]
		}
		return len(list) == 1
	})
	var good []string
	for _, event := range accepted {
		if event != refused {
			good = append(good, event)
		}
	}
	if len(good) != 30 {
		t.Fatalf("%d other events were accepted, want 30", len(good))
	}
	k.wantAllOnce(good)
	for claim, sql := range map[string]string{
		"tasks":            `SELECT count(*) FROM eventhook.execution WHERE event_id = $1::uuid`,
		"deliveries":       `SELECT count(*) FROM eventhook.delivery WHERE event_id = $1::uuid`,
		"published events": `SELECT count(*) FROM eventhook.event WHERE correlation_id = $1::uuid::text`,
	} {
		if n := count(t, conn, sql, refused); n > 0 {
			t.Errorf("the refused event created %d %s, want 0", n, claim)
		}
	}
	var story struct {
		LastError string `json:"last_error"`
		Actions   []struct{ Status string }
	}
	if status := k.call(http.MethodGet, "/events/"+refused, nil, &story); status != http.StatusOK || len(story.Actions) != 3 || !strings.Contains(story.LastError, "refused") {
		t.Errorf("reading it was answered %d: %+v, want three actions and a reason", status, story)
	}
	for _, a := range story.Actions {
		if a.Status != "failed" {
			t.Errorf("an action is %s, want failed", a.Status)
		}
	}
}
