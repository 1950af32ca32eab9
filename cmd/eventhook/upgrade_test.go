package main

import (
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/eventhook/eventhook/internal/cli/clitest"
	"github.com/eventhook/eventhook/internal/pgtest"
)

// nextRelease are migrations as a later release has them: they add columns, a table and an index.
// Instances of this release continue to use their statements, whose plans the changes invalidate.
var nextRelease = []string{
	`UPDATE eventhook.schema_release SET previous = newest, newest = newest + 2; UPDATE eventhook.schema_migrations SET version = version + 1, dirty = true`,
	`ALTER TABLE eventhook.event ADD COLUMN next_note text NOT NULL DEFAULT 'none'`,
	`ALTER TABLE eventhook.event_payload ADD COLUMN next_note text`,
	`ALTER TABLE eventhook.delivery ADD COLUMN next_note integer NOT NULL DEFAULT 0`,
	`ALTER TABLE eventhook.execution ADD COLUMN next_note jsonb`,
	`ALTER TABLE eventhook.source ADD COLUMN next_note boolean NOT NULL DEFAULT false`,
	`ALTER TABLE eventhook.subscription ADD COLUMN next_note text`,
	`UPDATE eventhook.schema_migrations SET dirty = false`,
	`UPDATE eventhook.schema_migrations SET version = version + 1, dirty = true`,
	`CREATE TABLE eventhook.next_table (id uuid PRIMARY KEY, tenant_id uuid REFERENCES eventhook.tenant)`,
	`CREATE INDEX next_index ON eventhook.delivery (next_note, id) WHERE next_note > 0`,
	`UPDATE eventhook.schema_migrations SET dirty = false`,
}

// The database is migrated to the schema of the next release while two instances of this one
// accept and deliver. They refuse nothing, stay ready, and so does one that starts after it.
func TestInstancesWorkWhileTheNextReleaseMigrates(t *testing.T) {
	t.Parallel()
	k := startTargetFixture(t, pgtest.New(t))
	former := k.instance
	k.restart()
	loads := []*flood{startFloodNamed(t, k.instance, "one"), startFloodNamed(t, former, "other")}
	underWay := func(when string) {
		t.Helper()
		before, delivered := []int{loads[0].count(http.StatusOK), loads[1].count(http.StatusOK)}, k.subscriber.count(eventsOf)
		clitest.Eventually(t, "load is answered and delivered "+when, func() bool {
			return loads[0].count(http.StatusOK) >= before[0]+enough && loads[1].count(http.StatusOK) >= before[1]+enough &&
				k.subscriber.count(eventsOf) >= delivered+enough
		})
		for _, i := range []*instance{k.instance, former} {
			if got := i.ready(); !strings.HasPrefix(got, "200 ") {
				t.Errorf("%s an instance answers %s, want ready", when, got)
			}
		}
	}
	underWay("before the upgrade")
	conn := connect(t, k.dsn)
	executeAll(t, conn, `SET lock_timeout = '5s'`)
	for n, sql := range nextRelease {
		executeAll(t, conn, sql)
		if n == len(nextRelease)/2 {
			underWay("between two migrations")
		}
	}
	underWay("after the migrations")
	k.wantLists("after the migrations", http.StatusOK)
	late := startCommand(t, databaseEnv(k.dsn), "serve")
	loads = append(loads, startFloodNamed(t, late, "late"))
	clitest.Eventually(t, "an instance that starts on the next schema works", func() bool { return loads[2].count(http.StatusOK) >= enough })
	var accepted []string
	for _, load := range loads {
		load.stop()
		accepted = append(accepted, load.accepted...)
		if len(load.statuses) > 1 {
			t.Errorf("webhooks were answered %v, want 200 only", load.statuses)
		}
	}
	k.wantAllOnce(accepted)
}

// formerVariable names an executable of the former release.
const formerVariable = "EVENTHOOK_TEST_FORMER"

// An instance of the former release accepts and delivers, one of this release migrates the database
// and joins it, and the former one ends. It runs before a release.
func TestUpgradeFromTheFormerRelease(t *testing.T) {
	program, own := os.Getenv(formerVariable), os.Args[0]
	if program == "" {
		t.Skip(formerVariable + " does not name an executable of the former release")
	}
	dsn := pgtest.New(t)
	executeAll(t, connect(t, dsn), `DROP SCHEMA eventhook CASCADE`)
	os.Args[0] = program
	t.Cleanup(func() { os.Args[0] = own })
	k := startTargetFixture(t, dsn)
	os.Args[0] = own
	former := k.instance
	loads := []*flood{startFloodNamed(t, former, "former")}
	underWay := func(when string) {
		t.Helper()
		before, delivered := loads[0].count(http.StatusOK), k.subscriber.count(eventsOf)
		clitest.Eventually(t, "load is answered and delivered "+when, func() bool {
			return loads[0].count(http.StatusOK) >= before+enough && k.subscriber.count(eventsOf) >= delivered+enough
		})
		if got := former.ready(); !strings.HasPrefix(got, "200 ") {
			t.Errorf("%s the former release answers %s, want ready", when, got)
		}
	}
	underWay("before the upgrade")
	const versionSQL = `SELECT version FROM eventhook.schema_migrations`
	conn := connect(t, dsn)
	before := count(t, conn, versionSQL)
	k.restart()
	if after := count(t, conn, versionSQL); after <= before {
		t.Errorf("the schema has version %d, and had %d before: there is no migration, or %s is not of the former release", after, before, program)
	}
	loads = append(loads, startFloodNamed(t, k.instance, "new"))
	underWay("on the new schema")
	clitest.Eventually(t, "the new release works", func() bool { return loads[1].count(http.StatusOK) >= enough })
	var accepted []string
	for _, load := range loads {
		load.stop()
		accepted = append(accepted, load.accepted...)
		if len(load.statuses) > 1 {
			t.Errorf("webhooks were answered %v, want 200 only", load.statuses)
		}
	}
	former.stop()
	k.wantAllOnce(accepted)
}
