package pg

import (
	"context"
	"errors"
	"maps"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/effects"
)

var (
	addInverse = newStatement("add_inverse", `INSERT INTO eventhook.piped SELECT 1/n FROM @numbers(n int4) RETURNING n`)
	add        = addInverse.extend("add", `INSERT INTO eventhook.piped SELECT n FROM @numbers(n int4)`)
	addedN     = add.int4("numbers.n")
)

// number returns the parameters of addInverse and add.
func number(n int) *columns {
	c := newColumns(add)
	c.reset()
	c.int4(addedN, n)
	return c
}

// piped returns a connection on which addInverse and add are prepared. Each adds a row;
// addInverse fails for 0.
func piped(t *testing.T) (f *fixture, conn *pgx.Conn) {
	t.Helper()
	f = setUp(t)
	f.exec(`CREATE TABLE eventhook.piped (n int)`)
	conn, err := pgx.Connect(t.Context(), f.dsn)
	f.must(err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	for _, s := range []*statement{addInverse, add} {
		_, err := conn.Prepare(t.Context(), s.name, s.sql)
		f.must(err)
	}
	return f, conn
}

func TestAPipelineIsOneTransaction(t *testing.T) {
	for _, c := range []struct {
		claim string
		run   func(*pipeline)
		rows  int
		code  string
	}{
		{"no statement fails", func(p *pipeline) {
			p.query(addInverse, number(1))
			p.send(add, number(2))
			p.query(addInverse, number(1))
		}, 3, ""},
		{"nothing is sent", func(*pipeline) {}, 0, ""},
		{"a later statement fails", func(p *pipeline) {
			p.query(addInverse, number(1))
			p.send(addInverse, number(0))
			p.send(add, number(2))
		}, 0, "22012"},
		{"a statement fails whose result is read", func(p *pipeline) {
			p.send(add, number(2))
			p.query(addInverse, number(0))
			p.query(addInverse, number(1))
		}, 0, "22012"},
		{"a statement fails before the one whose result is read", func(p *pipeline) {
			p.send(addInverse, number(0))
			p.send(add, number(2))
			p.query(addInverse, number(1))
		}, 0, "22012"},
	} {
		t.Run(c.claim, func(t *testing.T) {
			f, conn := piped(t)
			p := newPipeline(t.Context(), conn.PgConn())
			c.run(p)
			err := p.commit()
			var failed *pgconn.PgError
			if errors.As(err, &failed) != (c.code != "") || failed != nil && failed.Code != c.code {
				t.Errorf("got %v, want the code %q", err, c.code)
			}
			same(t, "rows", f.count("piped", "true"), c.rows)
			p = newPipeline(t.Context(), conn.PgConn()) // the connection can still be used
			p.send(add, number(9))
			f.must(p.commit())
			same(t, "rows of the next one", f.count("piped", "n = 9"), 1)
		})
	}
}

// After the Sync is sent, PostgreSQL commits, although the caller may get an error.
func TestAPipelineWhoseContextEndsIsAtomic(t *testing.T) {
	for _, c := range []struct {
		claim string
		steps func(p *pipeline, cancel func())
		whole int
	}{
		{"before the first statement", func(p *pipeline, cancel func()) {
			cancel() // the connection may be closed only after the commit
			p.query(addInverse, number(1))
		}, 1},
		{"after a result", func(p *pipeline, cancel func()) {
			p.query(addInverse, number(1))
			cancel()
			p.send(add, number(2))
		}, 2},
		{"before the commit", func(p *pipeline, cancel func()) {
			p.query(addInverse, number(1))
			p.query(addInverse, number(1))
			cancel()
		}, 2},
		{"before a commit with an error", func(p *pipeline, cancel func()) {
			p.query(addInverse, number(1))
			p.query(addInverse, number(0))
			cancel()
		}, 0},
	} {
		t.Run(c.claim, func(t *testing.T) {
			f, conn := piped(t)
			ctx, cancel := context.WithCancel(t.Context())
			p := newPipeline(ctx, conn.PgConn())
			c.steps(p, cancel)
			cancel()
			err := p.commit()
			for queryValue[int](f, `SELECT count(*) FROM pg_stat_activity WHERE pid = $1 AND state <> 'idle'`, int(conn.PgConn().PID())) > 0 {
			}
			if rows := f.count("piped", "true"); rows != c.whole && (rows != 0 || err == nil) {
				t.Errorf("got %v and %d rows, want %d or, with an error, none", err, rows, c.whole)
			}
			if conn.IsClosed() {
				return
			}
			p = newPipeline(t.Context(), conn.PgConn())
			p.send(add, number(9))
			f.must(p.commit())
		})
	}
}

// If the context of a batch ends, all of it is stored or nothing, and the pool still works.
func TestAnAcceptWhoseContextEndsIsAtomic(t *testing.T) {
	f := setUp(t)
	f.exec(`CREATE FUNCTION eventhook.wait() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_advisory_xact_lock_shared(7); RETURN NEW; END $$`)
	f.exec(`CREATE TRIGGER wait BEFORE INSERT ON eventhook.execution FOR EACH ROW EXECUTE FUNCTION eventhook.wait()`)
	holder, err := pgx.Connect(t.Context(), f.dsn)
	f.must(err)
	defer func() { _ = holder.Close(context.Background()) }()
	_, err = holder.Exec(t.Context(), `SELECT pg_advisory_lock(7)`)
	f.must(err)
	ctx, cancel := context.WithCancel(t.Context())
	batch := []*effects.Arrival{f.arrival(f.event(withKey("k")), f.executionAction(eventhook.Task, "t")), {Event: f.event(f.withLease)}}
	concurrently(
		func() {
			if err := f.db.Accept(ctx, batch); err == nil {
				t.Error("got no error")
			}
		},
		func() {
			f.waitForBlocked(1)
			cancel() // the first statement is done, and a later one waits
		})
	_, err = holder.Exec(t.Context(), `SELECT pg_advisory_unlock(7)`)
	f.must(err)
	f.waitForSessions(busySession, func(n int) bool { return n == 0 })
	none := map[string]int{"event": 0, "event_payload": 0, "execution": 0, "delivery": 0, "idempotency_key": 0}
	whole := map[string]int{"event": 2, "event_payload": 2, "execution": 1, "delivery": 0, "idempotency_key": 2}
	if got := f.rows(); !maps.Equal(got, none) && !maps.Equal(got, whole) {
		t.Errorf("got %v, want all of the batch or nothing", got)
	}
	same(t, "the event is as it was", []any{batch[0].Event.Status, batch[0].Event.Lease.Until}, []any{eventhook.EventStatus(""), noon.Add(lease)})
	next := f.arrival(f.event(), f.executionAction(eventhook.Task, ""))
	f.accept(f.db, next)
	same(t, "the next batch", next.IsPlanned(), true)
}

// After a refusal, the halves of the batch use the same connection.
func TestARefusalKeepsTheConnection(t *testing.T) {
	f := setUp(t)
	db := f.open(func(o *Options) { o.AcceptConns = 1 })
	backend := func() (pid int) {
		f.must(db.accept.QueryRow(t.Context(), `SELECT pg_backend_pid()`).Scan(&pid))
		return pid
	}
	before := backend()
	refused := f.arrival(f.event(func(e *eventhook.Event) { e.EventType = "a\x00b" }), f.executionAction(eventhook.Task, ""))
	f.accept(db, refused, f.arrival(f.event(), f.executionAction(eventhook.Task, "", refusedInput)), f.arrival(f.event(), f.executionAction(eventhook.Task, "")))
	same(t, "the connection", backend(), before)
	same(t, "executions", f.count("execution", "true"), 1)
}
