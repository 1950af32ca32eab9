package pg

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/clocktest"
	"github.com/eventhook/eventhook/internal/pgtest"
	"github.com/eventhook/eventhook/internal/seal"
)

// resealFixture is a database whose secrets are sealed with an older key, and DBs that have
// the older key, both keys, and the newer key.
type resealFixture struct {
	*fixture
	older, both, newer *DB
	oldID, newID       string
	config             eventhook.TenantConfig
}

// newResealFixture seals the fixture's verifiers and a learned secret of crm.
func newResealFixture(t *testing.T, change func(*Options)) *resealFixture {
	t.Helper()
	t.Parallel()
	old, fresh := seal.NewKey(), seal.NewKey()
	f := &fixture{TB: t, dsn: pgtest.New(t), clock: clocktest.New(noon)}
	with := func(keys ...string) func(*Options) {
		return func(o *Options) {
			ring, err := seal.New(keys...)
			f.must(err)
			o.Sealer = ring
		}
	}
	r := &resealFixture{fixture: f, older: f.open(with(old)), both: f.open(with(fresh, old), change), newer: f.open(with(fresh))}
	ring, err := seal.New(fresh, old)
	f.must(err)
	r.newID, r.oldID = ring.KeyIDs()[0], ring.KeyIDs()[1]
	f.db, f.other, r.config = r.older, r.older, acme()
	f.apply(r.config)
	f.tenant, f.crm = f.sourceID("acme", "crm")
	_, f.shop = f.sourceID("acme", "shop")
	f.must(r.older.StoreLearnedSecret(t.Context(), f.crm, eventhook.NewSecret("learned")))
	t.Cleanup(func() { checkInvariants(t, f.dsn) })
	return r
}

func asItIs(*Options) {}

func quiet(int, int) {}

func (r *resealFixture) reseal(progress func(done, total int)) Resealed {
	r.Helper()
	got, err := r.both.Reseal(r.Context(), r.newID, progress)
	r.must(err)
	return got
}

// counts returns how many values each key has sealed.
func (r *resealFixture) counts() map[string]int {
	r.Helper()
	list, err := r.both.CountSealed(r.Context())
	r.must(err)
	byKey := map[string]int{}
	for _, c := range list {
		byKey[c.KeyID] += c.Count
	}
	return byKey
}

func TestResealUsesTheNewKeyForAllValues(t *testing.T) {
	r := newResealFixture(t, asItIs)
	same(t, "before", r.counts(), map[string]int{r.oldID: 3})
	version := queryValue[string](r.fixture, `SELECT string_agg(version || updated_at::text, ' ' ORDER BY id) FROM eventhook.source`)
	var steps []string
	got := r.reseal(func(done, total int) { steps = append(steps, fmt.Sprint(done, " of ", total)) })
	same(t, "resealed", got, Resealed{Count: 3})
	same(t, "progress", steps, []string{"2 of 3", "3 of 3"})
	same(t, "after", r.counts(), map[string]int{r.newID: 3})
	for slug, learned := range map[string]int{"crm": 1, "shop": 0} {
		s, err := r.newer.FindSource(t.Context(), "acme", slug)
		r.must(err)
		same(t, slug, s.Verifier.Reveal(), r.config.Sources[0].Verifier.Reveal())
		same(t, slug+"'s learned secrets", len(s.LearnedSecrets), learned)
	}
	same(t, "no source has changed", queryValue[string](r.fixture, `SELECT string_agg(version || updated_at::text, ' ' ORDER BY id) FROM eventhook.source`), version)
	same(t, "again", r.reseal(func(int, int) { t.Error("progress was called") }), Resealed{})
}

func TestResealContinuesAfterAnInterruption(t *testing.T) {
	r := newResealFixture(t, asItIs)
	const n = 450 // of which a step takes 200
	_, err := r.older.ApplyTenant(t.Context(), operator, many(n), ApplyOptions{})
	r.must(err)
	ctx, stop := context.WithCancel(t.Context())
	if _, err := r.both.Reseal(ctx, r.newID, func(int, int) { stop() }); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want it to stop", err)
	}
	same(t, "after a step", r.counts(), map[string]int{r.oldID: n + 3 - 200, r.newID: 200})
	same(t, "the rest", r.reseal(quiet), Resealed{Count: n + 3 - 200})
	same(t, "in the end", r.counts(), map[string]int{r.newID: n + 3})
}

func TestResealReportsValuesThatDoNotOpen(t *testing.T) {
	r := newResealFixture(t, asItIs)
	lost, err := seal.New(seal.NewKey())
	r.must(err)
	sealed, err := lost.Seal("x", sourceVerifier.place(r.crm, r.tenant))
	r.must(err)
	r.exec(`UPDATE eventhook.source SET verifier = $1 WHERE slug = 'crm'`, sealed)
	r.exec(`UPDATE eventhook.learned_secret SET secret = 'not sealed at all'`)
	got := r.reseal(quiet)
	for i, want := range []struct {
		column string
		err    error
	}{{"source.verifier", seal.ErrUnknownKey}, {"learned_secret.secret", seal.ErrTampered}} {
		u := got.Unopened[i]
		if u.Column != want.column || u.ID != r.crm.String() || !errors.Is(u.Err, want.err) {
			t.Errorf("got %v, want %s of %s: %v", u, want.column, r.crm, want.err)
		}
	}
	got.Unopened = nil
	same(t, "the rest", got, Resealed{Count: 1})
	same(t, "keys", r.counts(), map[string]int{r.newID: 1, lost.KeyIDs()[0]: 1, "": 1})
}

// openHook is a Sealer that calls onOpen for each value that it opens.
type openHook struct {
	Sealer
	onOpen func(plain string)
}

func (h openHook) Open(sealed, place string) (string, error) {
	plain, err := h.Sealer.Open(sealed, place)
	h.onOpen(plain)
	return plain, err
}

func TestResealKeepsConcurrentChanges(t *testing.T) {
	var change sync.Once
	var r *resealFixture
	r = newResealFixture(t, func(o *Options) {
		o.Sealer = openHook{o.Sealer, func(plain string) {
			if plain == canaryText {
				return
			}
			change.Do(func() { // by an instance that has only the old key
				c := acme()
				c.Sources[0].Verifier = eventhook.NewSecret("changed")
				_, err := r.older.ApplyTenant(t.Context(), operator, c, ApplyOptions{})
				r.must(err)
			})
		}}
	})
	same(t, "resealed", r.reseal(quiet), Resealed{Count: 2}) // the change has deleted the learned secret
	same(t, "keys", r.counts(), map[string]int{r.newID: 2})
	s, err := r.newer.FindSource(t.Context(), "acme", "crm")
	r.must(err)
	same(t, "the change", s.Verifier.Reveal(), "changed")
}

func TestResealReportsValuesThatKeepChanging(t *testing.T) {
	var r *resealFixture
	var changes atomic.Int32
	r = newResealFixture(t, func(o *Options) {
		o.Sealer = openHook{o.Sealer, func(plain string) {
			if plain != "learned" {
				return
			}
			sealed, err := r.older.sealer.Seal("learned", learnedSecret.place(r.crm, r.tenant))
			r.must(err)
			r.exec(`UPDATE eventhook.learned_secret SET secret = $1`, sealed)
			changes.Add(1)
		}}
	})
	same(t, "resealed", r.reseal(quiet), Resealed{Count: 2, Left: 1})
	same(t, "keys", r.counts(), map[string]int{r.newID: 2, r.oldID: 1})
	if n := changes.Load(); n < 2 {
		t.Errorf("it was tried %d times, want it to try again", n)
	}
}

func TestResealWaitsForLockedRows(t *testing.T) {
	r := newResealFixture(t, asItIs)
	tx, err := r.older.work.Begin(t.Context())
	r.must(err)
	_, err = tx.Exec(t.Context(), `SELECT FROM eventhook.source WHERE slug = 'crm' FOR UPDATE`)
	r.must(err)
	var once sync.Once
	got := r.reseal(func(done, _ int) {
		if done == 1 { // the other value was resealed without waiting
			once.Do(func() { r.must(tx.Rollback(t.Context())) })
		}
	})
	same(t, "resealed", got, Resealed{Count: 3})
}

func TestInstancesReadWhileValuesAreResealed(t *testing.T) {
	r := newResealFixture(t, asItIs)
	_, err := r.older.ApplyTenant(t.Context(), operator, many(300), ApplyOptions{})
	r.must(err)
	reader := r.open(func(o *Options) { o.Sealer = r.both.sealer })
	ctx, stop := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				if _, err := reader.FindSource(t.Context(), "globex", fmt.Sprintf("source-%d", i%300)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	same(t, "resealed", r.reseal(quiet).Count, 303)
	stop()
	readers.Wait()
}

// sealedPlaces returns the columns of the schema that contain a sealed text, as the whole
// value or a part of it.
func sealedPlaces(ctx context.Context, conn *pgx.Conn) ([]string, error) {
	const columns = `SELECT table_name, column_name FROM information_schema.columns c JOIN pg_class k ON k.oid = (quote_ident(table_schema) || '.' || quote_ident(table_name))::regclass
		WHERE table_schema = 'eventhook' AND NOT k.relispartition AND k.relkind IN ('r', 'p') AND data_type IN ('text', 'json', 'jsonb', 'ARRAY')`
	rows, err := conn.Query(ctx, columns)
	if err != nil {
		return nil, err
	}
	var queries []string
	var table, column string
	_, err = pgx.ForEachRow(rows, []any{&table, &column}, func() error {
		queries = append(queries, fmt.Sprintf(`SELECT '%[1]s.%[2]s' WHERE EXISTS (SELECT FROM eventhook.%[1]s WHERE %[2]s::text ~ 'enc2?:[0-9a-z]+:')`, table, column))
		return nil
	})
	if err != nil {
		return nil, err
	}
	rows, err = conn.Query(ctx, strings.Join(queries, " UNION ALL "))
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// canaryColumn is sealed but not in sealedColumns: Reseal handles it separately.
const canaryColumn = "sealing.canary"

// checkSealed searches for sealed texts that Reseal would not find. It runs on every test's
// database, so that a new sealed column is noticed by its own tests.
func checkSealed(ctx context.Context, t *testing.T, conn *pgx.Conn) {
	t.Helper()
	known := map[string]bool{canaryColumn: true}
	for _, c := range sealedColumns {
		known[c.String()] = true
	}
	places, err := sealedPlaces(ctx, conn)
	if err != nil {
		t.Error(err)
	}
	for _, place := range places {
		if !known[place] {
			t.Errorf("%s has sealed texts and is not in sealedColumns: the texts would be lost with their key", place)
		}
	}
}

func TestSealedPlacesAreFoundInAllColumns(t *testing.T) {
	f := setUp(t)
	c := acmeWithTargets(secretTarget("a.example", "x"))
	c.Sources = append(c.Sources, eventhook.SourceConfig{Source: eventhook.Source{Slug: "queue", Name: "Queue", Consume: queueOf("x")}})
	f.apply(c)
	f.must(f.db.StoreLearnedSecret(t.Context(), f.crm, eventhook.NewSecret("learned")))
	f.subscription()
	conn, err := pgx.Connect(t.Context(), f.dsn)
	f.must(err)
	places := func() []string {
		list, err := sealedPlaces(t.Context(), conn)
		f.must(err)
		slices.Sort(list)
		return list
	}
	all := map[string]bool{canaryColumn: true}
	for _, c := range sealedColumns {
		all[c.String()] = true
	}
	same(t, "places", places(), slices.Sorted(maps.Keys(all)))
	f.exec(`UPDATE eventhook.tenant SET name = 'enc:0a:x'`)
	f.exec(`UPDATE eventhook.source SET settings = '{"x":["enc:0a:x"]}' WHERE slug = 'shop'`)
	all["tenant.name"], all["source.settings"] = true, true
	same(t, "places with the planted texts", places(), slices.Sorted(maps.Keys(all)))
	f.exec(`UPDATE eventhook.tenant SET name = 'x'`)
	f.exec(`UPDATE eventhook.source SET settings = '{}'`)
	f.must(conn.Close(t.Context()))
}

// A source whose key is lost can be replaced by applying its configuration again, and can be
// deleted.
func TestASourceWhoseKeyIsLostCanBeReplaced(t *testing.T) {
	r := newResealFixture(t, asItIs)
	_, err := r.newer.FindSource(t.Context(), "acme", "crm")
	if !errors.Is(err, seal.ErrUnknownKey) {
		t.Errorf("found without its key: %v", err)
	}
	if _, err = r.newer.TenantConfig(t.Context(), "acme"); err == nil || !strings.Contains(err.Error(), "acme/crm") {
		t.Errorf("exported without its key: %v, want the source named", err)
	}
	_, err = r.newer.ApplyTenant(t.Context(), operator, r.config, ApplyOptions{})
	wantKind(t, "applied without the key of the canary", err, eventhook.KindUnavailable)
	r.must(r.newer.ReplaceCanary(t.Context()))
	changes, err := r.newer.ApplyTenant(t.Context(), operator, r.config, ApplyOptions{})
	r.must(err)
	for _, c := range changes {
		if c.Kind == "source" {
			same(t, c.Name, c, eventhook.Change{Action: update, Kind: "source", Name: c.Name, Fields: []eventhook.FieldChange{secretsChanged}})
		}
	}
	s, err := r.newer.FindSource(t.Context(), "acme", "crm")
	r.must(err)
	same(t, "the verifier", s.Verifier.Reveal(), r.config.Sources[0].Verifier.Reveal())

	stranger, err := seal.New(seal.NewKey())
	r.must(err)
	lost := r.open(func(o *Options) { o.Sealer = stranger })
	r.must(lost.ReplaceCanary(t.Context()))
	r.must(lost.DeleteSource(t.Context(), operator, r.tenant, "crm", 0, true))
	r.config.Sources = nil
	_, err = lost.ApplyTenant(t.Context(), operator, r.config, ApplyOptions{Prune: true})
	r.must(err)
	same(t, "sources", r.count("source", "true"), 0)
}
