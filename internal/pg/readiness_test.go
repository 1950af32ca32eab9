package pg

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/clocktest"
	"github.com/eventhook/eventhook/internal/pgtest"
	"github.com/eventhook/eventhook/migrations"
)

func newestSchema(t testing.TB) int64 {
	t.Helper()
	newest, err := migrations.Newest()
	if err != nil {
		t.Fatal(err)
	}
	return newest
}

// withSchema opens an instance that knows the schema up to the newest version.
func (f *fixture) withSchema(t *testing.T) *DB {
	t.Helper()
	return f.open(func(o *Options) { o.Schema = newestSchema(t) })
}

func TestOnlyTheOwnSchemaAndThatOfTheNextReleaseAreSupported(t *testing.T) {
	t.Parallel()
	f := &fixture{TB: t, dsn: pgtest.New(t), clock: clocktest.New(noon)}
	f.db = f.open()
	db := f.withSchema(t)
	const reset = `UPDATE eventhook.schema_migrations SET version = $1, dirty = false`
	for _, c := range []struct{ claim, change, reason string }{
		{"the own schema", `SELECT`, ""},
		{"an interrupted migration to it", `UPDATE eventhook.schema_migrations SET dirty = true`, "stopped in the middle"},
		{"an older schema", `UPDATE eventhook.schema_migrations SET version = version - 1`, "older than this program"},
		{"a newer schema of an unknown release", `UPDATE eventhook.schema_migrations SET version = version + 1`, "newer than this program"},
		{"the next release, whose migrations run", `UPDATE eventhook.schema_migrations SET version = version + 1, dirty = true;
			UPDATE eventhook.schema_release SET previous = newest, newest = newest + 2`, ""},
		{"the next release", `UPDATE eventhook.schema_migrations SET version = version + 2`, ""},
		{"a version beyond the next release", `UPDATE eventhook.schema_migrations SET version = version + 3`, "newer than this program"},
		{"the release after the next", `UPDATE eventhook.schema_migrations SET version = version + 2; UPDATE eventhook.schema_release SET previous = previous + 1`, "newer than this program"},
		{"a newer schema without a release", `UPDATE eventhook.schema_migrations SET version = version + 1; DELETE FROM eventhook.schema_release`, "newer than this program"},
		{"the own schema without a release", `SELECT`, ""},
		{"an older schema without the table of releases", `UPDATE eventhook.schema_migrations SET version = 14; DROP TABLE eventhook.schema_release`, "version 14"},
		{"no version", `DELETE FROM eventhook.schema_migrations`, "version 0"},
		{"no table of versions", `DROP TABLE eventhook.schema_migrations`, "version 0"},
		{"no schema", `DROP SCHEMA eventhook CASCADE`, "version 0"},
	} {
		f.exec(c.change)
		err := db.Ping(t.Context())
		if fits := db.Fit(); (c.reason == "") != (err == nil) || (fits == nil) != (err == nil) {
			t.Errorf("%s: Ping returns %v and Fit %v", c.claim, err, fits)
		}
		if e, ok := errors.AsType[*eventhook.Error](err); err != nil && (!ok || e.Kind != eventhook.KindUnavailable || !strings.Contains(e.Message, c.reason) || e.RetryAfter == 0) {
			t.Errorf("%s: got %v, want a KindUnavailable with %q", c.claim, err, c.reason)
		}
		if !strings.Contains(c.change, "DROP") && !strings.Contains(c.change, "DELETE FROM eventhook.schema_migrations") {
			f.exec(reset, newestSchema(t))
		}
	}
	db.Close()
	if err := db.Ping(t.Context()); err == nil || eventhook.KindOf(err) != "" {
		t.Errorf("a closed database: got %v, want an error without a reason", err)
	}
}

// New connections prepare statements that a newer schema may refuse; the reason is found anyway.
func TestTheReasonIsFoundOnASchemaThatRefusesTheStatements(t *testing.T) {
	t.Parallel()
	f := &fixture{TB: t, dsn: pgtest.New(t), clock: clocktest.New(noon)}
	f.db = f.open()
	f.exec(`ALTER TABLE eventhook.delivery RENAME TO delivery_v2; UPDATE eventhook.schema_migrations SET version = 1000`)
	db := openAt(t, f.dsn, func(o *Options) { o.Schema = newestSchema(t) })
	f.must(db.StartFit(t.Context()))
	if err := db.Fit(); err == nil || !strings.Contains(err.Error(), "newer than this program: it has version 1000") {
		t.Errorf("got %v, want the version", err)
	}
}

func TestAnInstanceThatIsNotFitClaimsNothingAndHeals(t *testing.T) {
	f := setUp(t)
	db := f.withSchema(t)
	e := f.event()
	f.must(f.db.Accept(t.Context(), arrivals(e)))
	f.clock.Advance(time.Hour)
	f.exec(`UPDATE eventhook.schema_migrations SET version = 1000`)
	f.must(db.StartFit(t.Context()))
	same(t, "events that it claims", len(f.claimEvents(db, 10)), 0)
	f.exec(`UPDATE eventhook.schema_migrations SET version = $1`, newestSchema(t))
	f.must(db.StartFit(t.Context()))
	f.must(db.Fit())
	same(t, "events that it claims afterwards", len(f.claimEvents(db, 10)), 1)
}

// The accept path answers 503 even before the version was read.
func TestAStatementThatDoesNotFitTheSchemaIsNotReady(t *testing.T) {
	t.Parallel()
	f := &fixture{TB: t, dsn: pgtest.New(t), clock: clocktest.New(noon)}
	f.db = f.open()
	f.apply(acme())
	f.tenant, f.crm = f.sourceID("acme", "crm")
	f.exec(`ALTER TABLE eventhook.source RENAME COLUMN slug TO name_v2`)
	_, err := f.db.FindSource(t.Context(), "acme", "crm")
	if !errors.Is(err, eventhook.ErrNotReady) {
		t.Errorf("find a source: got %v, want ErrNotReady", err)
	}
	f.exec(`ALTER TABLE eventhook.event RENAME COLUMN event_type TO type_v2`)
	if err := f.db.Accept(t.Context(), arrivals(f.event())); !errors.Is(err, eventhook.ErrNotReady) {
		t.Errorf("accept: got %v, want ErrNotReady", err)
	}
}

func TestInstancesNoticeAMigrationAtOnce(t *testing.T) {
	f := setUp(t)
	db := f.withSchema(t)
	f.listening(db)
	f.exec(`UPDATE eventhook.schema_migrations SET version = version - 1`)
	f.must(db.StartFit(t.Context()))
	if db.Fit() == nil {
		t.Fatal("an instance is fit on an older schema")
	}
	f.exec(`UPDATE eventhook.schema_migrations SET version = version + 1`)
	ctx, cancel := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	started := db.hub.wait(sealingTopic)
	watching.Go(func() { _ = db.WatchFit(ctx, time.Hour) })
	f.must(migrations.Up(t.Context(), f.dsn))
	select {
	case <-started:
	case <-time.After(patient):
		t.Error("the migration did not notify the instance")
	}
	cancel()
	watching.Wait()
	if err := db.Ping(t.Context()); err != nil {
		t.Error(err)
	}
}
