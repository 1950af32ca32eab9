package pg

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/clocktest"
	"github.com/eventhook/eventhook/internal/pgtest"
	"github.com/eventhook/eventhook/internal/seal"
)

// sealFixture is a database that an instance of this version has just migrated, and a key.
type sealFixture struct {
	*fixture
	key string
}

// newSealFixture sets the database to a mode, before any instance has started.
func newSealFixture(t *testing.T, mode sealMode) *sealFixture {
	t.Helper()
	t.Parallel()
	r := &sealFixture{&fixture{TB: t, dsn: pgtest.New(t), clock: clocktest.New(noon)}, seal.NewKey()}
	conn, err := pgx.Connect(t.Context(), r.dsn)
	r.must(err)
	defer func() { _ = conn.Close(context.Background()) }()
	var was string
	r.must(conn.QueryRow(t.Context(), `SELECT mode FROM eventhook.sealing`).Scan(&was))
	same(t, "the mode of a new database", was, string(sealsBoundOnly))
	_, err = conn.Exec(t.Context(), `UPDATE eventhook.sealing SET mode = $1`, string(mode))
	r.must(err)
	t.Cleanup(func() { checkInvariants(t, r.dsn) })
	return r
}

// instance opens a further instance with the keys, newest first.
func (r *sealFixture) instance(keys ...string) *DB {
	r.Helper()
	ring, err := seal.New(keys...)
	r.must(err)
	return r.open(func(o *Options) { o.Sealer = ring })
}

// upgraded configures acme on an instance of this version while instances of the former
// version still run.
func upgraded(t *testing.T) *sealFixture {
	t.Helper()
	r := newSealFixture(t, sealsUnbound)
	r.db, r.other = r.instance(r.key), r.instance(r.key)
	c := consuming("queue", queueOf("hush"))
	c.Sources[0].Routes[0].Targets = []eventhook.Target{secretTarget("a.example", targetSecret)}
	r.apply(c)
	r.tenant, r.crm = r.sourceID("acme", "crm")
	r.must(r.db.StoreLearnedSecret(t.Context(), r.crm, eventhook.NewSecret("learned")))
	r.subscription()
	return r
}

// openAsFormer opens a text as the former version does.
func (r *sealFixture) openAsFormer(sealed string) (string, error) {
	rest, ok := strings.CutPrefix(sealed, "enc:")
	id, encoded, ok2 := strings.Cut(rest, ":")
	raw, err := base64.StdEncoding.DecodeString(encoded)
	if !ok || !ok2 || err != nil {
		return "", errors.New("not sealed")
	}
	key, _ := base64.StdEncoding.DecodeString(r.key)
	block, err := aes.NewCipher(key)
	r.must(err)
	aead, err := cipher.NewGCMWithRandomNonce(block)
	r.must(err)
	plain, err := aead.Open(nil, nil, raw, []byte(id))
	return string(plain), err
}

// storedEvent returns all sealed values by column.
func (r *sealFixture) stored() map[string][]string {
	r.Helper()
	all := map[string][]string{}
	for _, c := range sealedColumns {
		rows, err := r.db.work.Query(r.Context(), c.sql(`SELECT {column} FROM {table} WHERE {column} IS NOT NULL`))
		r.must(err)
		all[c.String()], err = pgx.CollectRows(rows, pgx.RowTo[string])
		r.must(err)
	}
	return all
}

func (r *sealFixture) mode() sealMode {
	r.Helper()
	return queryValue[sealMode](r.fixture, `SELECT mode FROM eventhook.sealing`)
}

func (r *sealFixture) canary() string {
	r.Helper()
	return queryValue[string](r.fixture, `SELECT coalesce(canary, '') FROM eventhook.sealing`)
}

func (r *sealFixture) keyID() string {
	ring, err := seal.New(r.key)
	r.must(err)
	return ring.KeyIDs()[0]
}

func TestTheFormerVersionReadsValuesWrittenBeforeRotate(t *testing.T) {
	r := upgraded(t)
	for column, values := range r.stored() {
		if len(values) == 0 {
			t.Errorf("%s has no value", column)
		}
		for _, sealed := range values {
			if _, err := r.openAsFormer(sealed); err != nil {
				t.Errorf("%s: the former version does not open %.20s: %v", column, sealed, err)
			}
		}
	}
	same(t, "the secret that this version reads", r.other.mustSource(t, "acme", "crm").LearnedSecrets[0].Reveal(), "learned")
	same(t, "the mode", r.mode(), sealsUnbound)
}

func (db *DB) mustSource(t *testing.T, tenant, slug string) eventhook.Source {
	t.Helper()
	s, err := db.FindSource(t.Context(), tenant, slug)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestRotateBindsAllValuesAndRefusesUnboundOnes(t *testing.T) {
	r := upgraded(t)
	var planted string // an unbound value of the day before
	for _, sealed := range r.stored()["source.verifier"] {
		planted = sealed
	}
	got, err := r.db.Reseal(t.Context(), r.keyID(), quiet)
	r.must(err)
	same(t, "resealed", got, Resealed{Count: 7})
	same(t, "the mode", r.mode(), sealsBoundOnly)
	for column, values := range r.stored() {
		for _, sealed := range values {
			if !strings.HasPrefix(sealed, boundPrefix) {
				t.Errorf("%s has %.20s, want it bound", column, sealed)
			}
		}
	}
	same(t, "the learned secret", r.other.mustSource(t, "acme", "crm").LearnedSecrets[0].Reveal(), "learned")

	// The other instance was not notified but must seal bound values.
	_, err = r.other.CreateSource(t.Context(), operator, r.newSource("later"))
	r.must(err)
	sealed := queryValue[string](r.fixture, `SELECT verifier FROM eventhook.source WHERE slug = 'later'`)
	if !strings.HasPrefix(sealed, boundPrefix) {
		t.Errorf("an instance that was not notified writes %.20s, want it bound", sealed)
	}

	r.exec(`UPDATE eventhook.source SET verifier = $1 WHERE slug = 'shop'`, planted)
	for name, db := range map[string]*DB{"that rotated": r.db, "that was not notified": r.other, "that has just started": r.instance(r.key)} {
		if _, err := db.FindSource(t.Context(), "acme", "shop"); !errors.Is(err, errUnbound) {
			t.Errorf("the instance %s reads an unbound value: got %v, want %v", name, err, errUnbound)
		}
	}
	got, err = r.db.Reseal(t.Context(), r.keyID(), quiet)
	r.must(err)
	same(t, "rotate does not bind the planted value", []int{got.Count, got.Unbound, len(got.Unopened)}, []int{0, 1, 1})
}

func TestInstancesAreNotifiedThatUnboundValuesAreRefused(t *testing.T) {
	r := upgraded(t)
	r.listening(r.other)
	ctx, cancel := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	watching.Go(func() { _ = r.other.WatchFit(ctx, time.Hour) })
	_, err := r.db.Reseal(t.Context(), r.keyID(), quiet)
	r.must(err)
	for deadline := time.Now().Add(patient); !r.other.RefusesUnbound(); {
		woken := r.other.hub.wait(sealingTopic)
		if r.other.RefusesUnbound() {
			break
		}
		select {
		case <-woken:
		case <-time.After(10 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatal("the other instance was not notified")
		}
	}
	cancel()
	watching.Wait()
}

// Rotate waits for transactions that seal unbound values, so that it binds these values as well.
func TestRotateWaitsForTransactionsThatSealUnbound(t *testing.T) {
	r := upgraded(t)
	begun, goOn := make(chan struct{}), make(chan struct{})
	commit := sync.OnceFunc(func() { close(goOn) })
	defer commit()
	written := make(chan error, 1)
	go func() {
		written <- r.other.mutate(t.Context(), "add source", operator, r.tenant, func(m *mutation) error {
			_, err := m.addSource(t.Context(), r.newSource("slow"))
			close(begun)
			<-goOn
			return err
		})
	}()
	<-begun
	rotated := make(chan error, 1)
	var got Resealed
	go func() {
		var err error
		got, err = r.db.Reseal(t.Context(), r.keyID(), quiet)
		rotated <- err
	}()
	r.waitForBlocked(1)
	commit()
	r.must(<-written)
	r.must(<-rotated)
	same(t, "resealed", got, Resealed{Count: 8})
	same(t, "the mode", r.mode(), sealsBoundOnly)
	r.db.mustSource(t, "acme", "slow")
}

func TestUnboundValuesThatDoNotOpenBlockBoundOnly(t *testing.T) {
	r := upgraded(t)
	lost, err := seal.New(seal.NewKey())
	r.must(err)
	sealed, err := lost.Seal("x", "")
	r.must(err)
	r.exec(`UPDATE eventhook.source SET verifier = $1 WHERE slug = 'shop'`, sealed)
	got, err := r.db.Reseal(t.Context(), r.keyID(), quiet)
	r.must(err)
	same(t, "resealed", []int{got.Count, got.Unbound, len(got.Unopened)}, []int{6, 1, 1})
	same(t, "the mode", r.mode(), sealsBound)
	r.exec(`DELETE FROM eventhook.source WHERE slug = 'shop'`)
	_, err = r.db.Reseal(t.Context(), r.keyID(), quiet)
	r.must(err)
	same(t, "after the value was deleted", r.mode(), sealsBoundOnly)
}

// With a wrong key, no secret is sealed, and the error has the reason.
func TestAWrongKeyNeverReplacesTheCanary(t *testing.T) {
	r := newSealFixture(t, sealsBoundOnly)
	r.db = r.instance(r.key)
	r.apply(acme())
	r.tenant, r.crm = r.sourceID("acme", "crm")
	canary := r.canary()
	wrong := r.instance(seal.NewKey())
	_, added := wrong.CreateSource(t.Context(), operator, r.newSource("x"))
	_, changed := wrong.UpdateSource(t.Context(), operator, r.tenant, "crm", 0, renamed("x"))
	_, applied := wrong.ApplyTenant(t.Context(), operator, acmeWithTargets(secretTarget("a.example", "x")), ApplyOptions{})
	_, planned := wrong.ApplyTenant(t.Context(), operator, acmeWithTargets(secretTarget("a.example", "x")), ApplyOptions{DryRun: true})
	_, resealed := wrong.Reseal(t.Context(), "x", quiet)
	_, subscribed := wrong.CreateSubscription(t.Context(), operator, r.newSubscription())
	for act, err := range map[string]error{
		"ping": wrong.Ping(t.Context()), "its keys": wrong.KeysFit(), "add a source": added, "change a source": changed, "apply": applied, "plan": planned,
		"rotate": resealed, "subscribe": subscribed, "learn": wrong.StoreLearnedSecret(t.Context(), r.crm, eventhook.NewSecret("x")),
	} {
		wantKind(t, act, err, eventhook.KindUnavailable)
		if err == nil || !strings.Contains(err.Error(), "do not fit this database") {
			t.Errorf("%s: got %v, want the reason", act, err)
		}
	}
	for act, err := range map[string]error{"add a source": added, "change a source": changed, "apply": applied, "subscribe": subscribed} {
		if e, ok := errors.AsType[*eventhook.Error](err); !ok || e.Message != "Secrets cannot be stored now; try again later." || e.RetryAfter != time.Minute {
			t.Errorf("%s: a tenant reads %v, want no information about the keys", act, err)
		}
	}
	e := r.event()
	r.must(r.db.Accept(t.Context(), arrivals(e)))
	r.clock.Advance(time.Hour)
	same(t, "events that it claims", len(r.claimEvents(wrong, 10)), 0)
	same(t, "events that another instance claims", len(r.claimEvents(r.db, 10)), 1)
	r.must(wrong.StartSealing(t.Context()))
	same(t, "the canary", r.canary(), canary)
	r.must(r.db.Ping(t.Context()))

	r.must(wrong.ReplaceCanary(t.Context()))
	r.must(wrong.Ping(t.Context()))
	wantKind(t, "the former key, after ReplaceCanary", r.db.Ping(t.Context()), eventhook.KindUnavailable)
}

func TestInstancesThatStartTogetherWriteOneCanary(t *testing.T) {
	r := newSealFixture(t, sealsBoundOnly)
	var all []*DB
	var acts []func()
	for range 6 {
		ring, err := seal.New(seal.NewKey())
		r.must(err)
		db := openAt(t, r.dsn, func(o *Options) { o.Sealer = ring })
		all = append(all, db)
		acts = append(acts, func() { r.must(db.StartSealing(t.Context())) })
	}
	concurrently(acts...)
	fit := 0
	for _, db := range all {
		if db.Ping(t.Context()) == nil {
			fit++
		}
	}
	same(t, "instances whose keys fit", fit, 1)
}

func TestTheFirstCanaryNeedsTheKeysOfStoredSecrets(t *testing.T) {
	r := upgraded(t)
	r.exec(`UPDATE eventhook.sealing SET canary = NULL`) // as if just upgraded
	wrong := r.instance(seal.NewKey())
	wantKind(t, "keys that open no value", wrong.Ping(t.Context()), eventhook.KindUnavailable)
	same(t, "the canary", r.canary(), "")
	fresh := seal.NewKey()
	right := r.instance(fresh, r.key)
	r.must(right.Ping(t.Context()))
	r.must(r.instance(r.key, fresh).Ping(t.Context()))
}

func TestTheCanaryFollowsTheKeys(t *testing.T) {
	r := newSealFixture(t, sealsBoundOnly)
	r.db = r.instance(r.key)
	r.apply(acme())
	fresh := seal.NewKey()
	ring, err := seal.New(fresh)
	r.must(err)
	for _, keys := range [][]string{{r.key, fresh}, {fresh, r.key}} {
		r.must(r.instance(keys...).Ping(t.Context()))
	}
	wantKind(t, "the new key before rotate", r.instance(fresh).Ping(t.Context()), eventhook.KindUnavailable)
	_, err = r.instance(fresh, r.key).Reseal(t.Context(), ring.KeyIDs()[0], quiet)
	r.must(err)
	r.must(r.instance(fresh).Ping(t.Context()))
	wantKind(t, "the old key after it", r.db.Ping(t.Context()), eventhook.KindUnavailable)
}

// Write access to the database is not enough to make instances
// accept unbound values again.
func TestAModeChangedBySQLIsIgnored(t *testing.T) {
	r := newSealFixture(t, sealsBoundOnly)
	r.db = r.instance(r.key)
	r.apply(acme())
	ring, err := seal.New(r.key)
	r.must(err)
	planted, err := ring.Seal("{}", "")
	r.must(err)
	r.exec(`UPDATE eventhook.sealing SET mode = 'unbound'`)
	r.exec(`UPDATE eventhook.source SET verifier = $1 WHERE slug = 'shop'`, planted)
	for name, db := range map[string]*DB{"that runs": r.db, "that has just started": r.instance(r.key)} {
		wantKind(t, "an instance "+name, db.Ping(t.Context()), eventhook.KindUnavailable)
		if _, err := db.FindSource(t.Context(), "acme", "shop"); !errors.Is(err, errUnbound) {
			t.Errorf("an instance %s reads an unbound value: %v, want %v", name, err, errUnbound)
		}
	}
	r.exec(`UPDATE eventhook.sealing SET mode = 'bound_only'`)
	r.must(r.db.Ping(t.Context()))
	r.exec(`DELETE FROM eventhook.sealing`)
	wantKind(t, "without the row of sealing", r.db.Ping(t.Context()), eventhook.KindUnavailable)
}
