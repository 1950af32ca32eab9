package pg

import (
	"crypto/sha256"
	"strings"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
)

func TestKeys(t *testing.T) {
	f := setUp(t)
	ends := noon.Add(time.Hour)
	key := eventhook.APIKey{TenantID: f.tenant, Name: "ci", Prefix: "ehk_1234", Scopes: []eventhook.Scope{eventhook.ScopeRead, eventhook.ScopeWork}}
	find := func(text string) (eventhook.APIKey, eventhook.Tenant, error) {
		return f.other.KeyByHash(t.Context(), hashed(text))
	}
	wantNone := func(claim, text string) {
		t.Helper()
		_, _, err := find(text)
		wantKind(t, claim, err, eventhook.KindUnauthorized)
	}
	first, err := f.db.CreateKey(t.Context(), operator, key, hashed("ehk_one"))
	f.must(err)
	f.clock.Advance(time.Second)
	key.ExpiresAt = &ends
	second, err := f.db.CreateKey(t.Context(), operator, key, hashed("ehk_two"))
	f.must(err)
	if row := queryValue[string](f, `SELECT string_agg(k::text, '|') FROM eventhook.api_key k`); strings.Contains(row, "ehk_one") {
		t.Errorf("the key is in its row: %s", row)
	}

	got, tenant, err := find("ehk_one")
	f.must(err)
	same(t, "tenant", tenant, eventhook.Tenant{ID: f.tenant, Slug: "acme", Status: eventhook.TenantActive})
	got.CreatedAt = got.CreatedAt.UTC()
	same(t, "key", got, first)
	wantNone("an unknown key", "ehk_three")

	list, err := f.db.Keys(t.Context(), f.tenant, eventhook.KeyID{}, 10)
	f.must(err)
	same(t, "keys, newest first", []eventhook.KeyID{list[0].ID, list[1].ID}, []eventhook.KeyID{second.ID, first.ID})
	list, err = f.db.Keys(t.Context(), f.tenant, second.ID, 10)
	f.must(err)
	same(t, "keys before a cursor", len(list), 1)
	umbrella := f.secondTenant()
	list, err = f.db.Keys(t.Context(), umbrella, eventhook.KeyID{}, 10)
	f.must(err)
	same(t, "another tenant's keys", len(list), 0)

	f.clock.Advance(time.Hour - 2*time.Second)
	_, _, err = find("ehk_two")
	f.must(err)
	f.clock.Advance(time.Second)
	wantNone("an expired key", "ehk_two")
	wantKind(t, "deleted by another tenant", f.db.DeleteKey(t.Context(), operator, umbrella, first.ID), eventhook.KindNotFound)
	f.exec(`UPDATE eventhook.tenant SET status = 'suspended' WHERE slug = 'acme'`)
	_, tenant, err = find("ehk_one")
	f.must(err)
	same(t, "a suspended tenant", tenant.Status, eventhook.TenantSuspended)
	f.exec(`UPDATE eventhook.tenant SET status = 'closed' WHERE slug = 'acme'`)
	wantNone("a key of a closed tenant", "ehk_one")
	f.exec(`UPDATE eventhook.tenant SET status = 'active' WHERE slug = 'acme'`)
	f.must(f.db.DeleteKey(t.Context(), operator, f.tenant, first.ID))
	wantNone("a deleted key", "ehk_one")
	wantKind(t, "deleted twice", f.db.DeleteKey(t.Context(), operator, f.tenant, first.ID), eventhook.KindNotFound)
}

// hashed returns the hash that the API stores of a key.
func hashed(key string) []byte {
	sum := sha256.Sum256([]byte(key))
	return sum[:]
}

func TestRecordKeyUse(t *testing.T) {
	f := setUp(t)
	add := func(name string) eventhook.KeyID {
		k, err := f.db.CreateKey(t.Context(), operator, eventhook.APIKey{TenantID: f.tenant, Name: name, Prefix: "ehk_1234", Scopes: eventhook.Scopes}, hashed(name))
		f.must(err)
		return k.ID
	}
	often, never, gone := add("often"), add("never"), eventhook.NewID[eventhook.APIKey](noon)
	used := func() map[eventhook.KeyID]time.Time {
		list, err := f.db.Keys(t.Context(), f.tenant, eventhook.KeyID{}, 10)
		f.must(err)
		at := map[eventhook.KeyID]time.Time{}
		for _, k := range list {
			if k.LastUsedAt != nil {
				at[k.ID] = k.LastUsedAt.UTC()
			}
		}
		return at
	}
	f.must(f.db.RecordKeyUse(t.Context(), nil))
	for _, c := range []struct {
		claim    string
		at, want time.Time
	}{
		{"the first use", noon, noon},
		{"a later one", noon.Add(time.Minute), noon.Add(time.Minute)},
		{"an earlier use that another instance records late", noon.Add(time.Second), noon.Add(time.Minute)},
	} {
		f.must(f.db.RecordKeyUse(t.Context(), map[eventhook.KeyID]time.Time{often: c.at, gone: c.at}))
		same(t, c.claim, used(), map[eventhook.KeyID]time.Time{often: c.want})
	}
	if _, isUsed := used()[never]; isUsed {
		t.Error("a key that was not used is marked")
	}
}

func TestConcurrentKeyUsesDoNotDeadlock(t *testing.T) {
	f := setUp(t)
	f.exec(`INSERT INTO eventhook.api_key (id, tenant_id, name, prefix, hash, scopes)
		SELECT gen_random_uuid(), $1, 'k', 'ehk_', sha256(i::text::bytea), '{read}' FROM generate_series(1, 200) i`, [16]byte(f.tenant))
	list, err := f.db.Keys(t.Context(), f.tenant, eventhook.KeyID{}, 250)
	f.must(err)
	same(t, "keys", len(list), 200)
	tell := func(db *DB, round int) func() {
		used := map[eventhook.KeyID]time.Time{} // each goroutine iterates in another order
		for _, k := range list {
			used[k.ID] = noon.Add(time.Duration(round) * time.Second)
		}
		return func() { f.must(db.RecordKeyUse(t.Context(), used)) }
	}
	for round := range 10 {
		concurrently(tell(f.db, 2*round+1), tell(f.other, 2*round+2), tell(f.db, 2*round+2), tell(f.other, 2*round+1))
	}
	same(t, "the last moment", queryValue[time.Time](f, `SELECT min(last_used_at) FROM eventhook.api_key`).UTC(), noon.Add(20*time.Second))
}
