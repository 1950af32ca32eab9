package pg

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
)

// rejection returns a new rejection of a source, a millisecond after the previous one.
func (f *fixture) rejection(source eventhook.SourceID) eventhook.Rejection {
	f.clock.Advance(time.Millisecond)
	hash := sha256.Sum256([]byte("body"))
	return eventhook.Rejection{
		ID: eventhook.NewID[eventhook.Rejection](f.clock.Now()), SourceID: source, Outcome: "unverified", Reason: "mismatch",
		Detail: "no secret gives this signature", Method: "POST", ClientAddress: "192.0.2.1", HeaderNames: []string{"Content-Type", "X-Sig"},
		BodySize: 4, BodySHA256: hash[:],
	}
}

func (f *fixture) rejected(source eventhook.SourceID, n int) []eventhook.Rejection {
	var list []eventhook.Rejection
	for range n {
		list = append(list, f.rejection(source))
	}
	return list
}

func (f *fixture) rejectionCount(source eventhook.SourceID, reason string, n int64) eventhook.RejectionCount {
	return eventhook.RejectionCount{SourceID: source, Reason: reason, Count: n, FirstAt: f.clock.Now(), LastAt: f.clock.Now()}
}

func (f *fixture) record(db *DB, last []eventhook.Rejection, counts ...eventhook.RejectionCount) {
	f.Helper()
	ctx, cancel := context.WithTimeout(f.Context(), patient) // it never waits for a lock
	defer cancel()
	f.must(db.RecordRejections(ctx, last, counts))
}

// rejections returns the rejections and counts of crm, as another instance reads them.
func (f *fixture) rejections() ([]eventhook.Rejection, []eventhook.RejectionCount) {
	f.Helper()
	list, counts, err := f.other.Rejections(f.Context(), f.tenant, "crm", eventhook.RejectionID{}, 1000)
	f.must(err)
	return list, counts
}

func newestFirst(list []eventhook.Rejection) []eventhook.Rejection {
	list = slices.Clone(list)
	slices.Reverse(list)
	return list
}

func TestRejectionsAreReadAsTheyWereRecorded(t *testing.T) {
	f := setUp(t)
	full, bare, odd := f.rejection(f.crm), f.rejection(f.crm), f.rejection(f.crm)
	bare = eventhook.Rejection{ID: bare.ID, SourceID: f.crm, Outcome: "too_large", Reason: "too_large", Method: "POST",
		HeaderNames: []string{}, BodySize: eventhook.UnknownBodySize}
	odd.HeaderNames, odd.Detail = []string{`"`, "\n", `\x00`, "é"}, "a\x00b\xff"
	empty := f.rejection(f.crm)
	empty.BodySize = 0
	f.record(f.db, []eventhook.Rejection{full, bare, odd, empty}, f.rejectionCount(f.crm, "mismatch", 3), f.rejectionCount(f.crm, "too_large", 1))
	odd.Detail = `a\x00b\xff`
	list, counts := f.rejections()
	same(t, "rejections", list, []eventhook.Rejection{empty, odd, bare, full})
	same(t, "counts, the most frequent first", counts, []eventhook.RejectionCount{f.rejectionCount(f.crm, "mismatch", 3), f.rejectionCount(f.crm, "too_large", 1)})
}

func TestRejectionCountsAddUp(t *testing.T) {
	f := setUp(t)
	first := f.clock.Now()
	f.record(f.db, nil, f.rejectionCount(f.crm, "mismatch", 2))
	f.clock.Advance(time.Hour)
	f.record(f.other, nil, f.rejectionCount(f.crm, "mismatch", 40))
	_, counts := f.rejections()
	same(t, "counts", counts, []eventhook.RejectionCount{{SourceID: f.crm, Reason: "mismatch", Count: 42, FirstAt: first, LastAt: f.clock.Now()}})
	late := f.rejectionCount(f.crm, "mismatch", 1)
	late.FirstAt, late.LastAt = first.Add(-time.Hour), first.Add(-time.Minute)
	f.record(f.db, nil, late)
	_, counts = f.rejections()
	same(t, "counts after a late write", counts, []eventhook.RejectionCount{{SourceID: f.crm, Reason: "mismatch", Count: 43, FirstAt: late.FirstAt, LastAt: f.clock.Now()}})
}

func TestTheNewestRejectionsOfASourceAreStored(t *testing.T) {
	f := setUp(t)
	var all []eventhook.Rejection
	shop := f.rejected(f.shop, 3)
	f.record(f.db, shop)
	for range 7 {
		part := f.rejected(f.crm, 20)
		f.record(f.db, part)
		all = append(all, part...)
		list, _ := f.rejections()
		same(t, "kept", list, newestFirst(all[max(0, len(all)-50):]))
	}
	same(t, "of another source", f.count("rejection", "source_id = $1", [16]byte(f.shop)), 3)
}

func TestLockedRejectionsAreDeletedLater(t *testing.T) {
	f := setUp(t)
	list := f.rejected(f.crm, 60)
	f.record(f.db, list[:30])
	tx, err := f.other.work.Begin(t.Context())
	f.must(err)
	_, err = tx.Exec(t.Context(), `SELECT FROM eventhook.rejection WHERE id = $1 FOR UPDATE`, [16]byte(list[3].ID))
	f.must(err)
	f.record(f.db, list[30:])
	same(t, "stored while one is locked", f.count("rejection", "true"), 51)
	f.must(tx.Rollback(t.Context()))
	f.record(f.db, f.rejected(f.crm, 1))
	same(t, "kept", f.count("rejection", "true"), 50)
}

func TestRejectionsOfASourceAreFoundByIndex(t *testing.T) {
	f := setUp(t)
	f.exec(`INSERT INTO eventhook.source (id, tenant_id, slug, name, verifier, secrets_count, settings)
		SELECT gen_random_uuid(), $1, 'many-' || i, '', '', 0, '{}' FROM generate_series(1, 100) i`, [16]byte(f.tenant))
	f.exec(`INSERT INTO eventhook.rejection (id, source_id, outcome, reason, detail, method, header_names)
		SELECT gen_random_uuid(), id, '', '', '', '', '[]' FROM eventhook.source, generate_series(1, 50)`)
	f.exec(`ANALYZE eventhook.rejection`)
	conn, err := f.db.work.Acquire(t.Context())
	f.must(err)
	defer conn.Release()
	for _, name := range []string{"list rejections", "prune rejections"} {
		if plan := explain(f, conn.Conn(), frequentStatements[name].sql, frequentStatements[name].parameters); !strings.Contains(plan, "rejection_source") {
			t.Errorf("%s, want the index on the source and the id:\n%s", name, plan)
		}
	}
}

func TestARejectionIsStoredOnce(t *testing.T) {
	f := setUp(t)
	list := f.rejected(f.crm, 3)
	f.record(f.db, list[:2])
	f.record(f.other, list)
	got, _ := f.rejections()
	same(t, "rejections", got, newestFirst(list))
}

// Rejections of a source that is deleted, or being deleted, do not affect the rejections of
// other sources.
func TestRejectionsOfADeletedSourceAreIgnored(t *testing.T) {
	f := setUp(t)
	list := append(f.rejected(f.shop, 2), f.rejected(f.crm, 2)...)
	counts := []eventhook.RejectionCount{f.rejectionCount(f.shop, "mismatch", 1), f.rejectionCount(f.crm, "mismatch", 1)}
	tx, err := f.other.work.Begin(t.Context())
	f.must(err)
	_, err = tx.Exec(t.Context(), `DELETE FROM eventhook.source WHERE id = $1`, [16]byte(f.shop))
	f.must(err)
	f.record(f.db, list[:3], counts...)
	f.must(tx.Commit(t.Context()))
	f.record(f.db, list, counts...)
	got, totals := f.rejections()
	same(t, "rejections of the other source", got, newestFirst(list[2:]))
	same(t, "counts of the other source", totals, []eventhook.RejectionCount{f.rejectionCount(f.crm, "mismatch", 2)})
	same(t, "rejections of the deleted source", f.count("rejection", "source_id = $1", [16]byte(f.shop)), 0)
	same(t, "counts of the deleted source", f.count("rejection_count", "source_id = $1", [16]byte(f.shop)), 0)
	f.record(f.db, list[:2], counts[0])
	f.record(f.db, nil)
}

func TestDeletingASourceDeletesItsRejections(t *testing.T) {
	f := setUp(t)
	f.record(f.db, f.rejected(f.shop, 5), f.rejectionCount(f.shop, "mismatch", 5))
	f.exec(`DELETE FROM eventhook.source WHERE id = $1`, [16]byte(f.shop))
	same(t, "rejections", f.count("rejection", "true"), 0)
	same(t, "counts", f.count("rejection_count", "true"), 0)
}

// Instances record the same sources and reasons in different orders while a source is created
// and deleted. No call fails, and no count is lost.
func TestInstancesRecordRejectionsConcurrently(t *testing.T) {
	f := setUp(t)
	const rounds, each = 25, 10
	reasons := []string{"mismatch", "encoding", "timestamp"}
	write := func(db *DB, backwards bool) func() {
		return func() {
			for range rounds {
				last := append(f.rejected(f.crm, each), f.rejected(f.shop, each)...)
				var counts []eventhook.RejectionCount
				for _, reason := range reasons {
					counts = append(counts, f.rejectionCount(f.crm, reason, each), f.rejectionCount(f.shop, reason, each))
				}
				if backwards {
					slices.Reverse(last)
					slices.Reverse(counts)
				}
				if err := db.RecordRejections(t.Context(), last, counts); err != nil {
					t.Error(err)
				}
			}
		}
	}
	concurrently(write(f.db, false), write(f.other, true), write(f.db, true), func() {
		for range rounds {
			_, err := f.db.work.Exec(t.Context(), `UPDATE eventhook.source SET updated_at = now()`)
			if err != nil {
				t.Error(err)
			}
		}
	})
	_, counts := f.rejections()
	for i := range counts {
		same(t, "count", counts[i].Count, int64(3*rounds*each))
	}
	same(t, "reasons", len(counts), len(reasons))
	f.record(f.db, append(f.rejected(f.crm, 1), f.rejected(f.shop, 1)...))
	for _, source := range []eventhook.SourceID{f.crm, f.shop} {
		same(t, "rejections of the source after the sweep", f.count("rejection", "source_id = $1", [16]byte(source)), 50)
	}
}

func TestRejectionsAreScopedToTenantAndSource(t *testing.T) {
	f := setUp(t)
	f.record(f.db, f.rejected(f.crm, 2), f.rejectionCount(f.crm, "mismatch", 2))
	umbrella := f.secondTenant()
	for _, c := range []struct {
		tenant eventhook.TenantID
		slug   string
	}{{umbrella, "crm"}, {f.tenant, "nowhere"}, {f.tenant, ""}} {
		_, _, err := f.db.Rejections(t.Context(), c.tenant, c.slug, eventhook.RejectionID{}, 10)
		wantKind(t, fmt.Sprintf("%q", c.slug), err, eventhook.KindNotFound)
	}
	list, counts, err := f.db.Rejections(t.Context(), f.tenant, "shop", eventhook.RejectionID{}, 10)
	f.must(err)
	same(t, "of a source without any", []int{len(list), len(counts)}, []int{0, 0})
}

func TestRejectionsArePaged(t *testing.T) {
	f := setUp(t)
	all := f.rejected(f.crm, 9)
	f.record(f.db, all)
	var got []eventhook.Rejection
	for before := (eventhook.RejectionID{}); ; before = got[len(got)-1].ID {
		page, _, err := f.db.Rejections(t.Context(), f.tenant, "crm", before, 4)
		f.must(err)
		if len(page) == 0 {
			break
		}
		got = append(got, page...)
	}
	same(t, "all pages", got, newestFirst(all))
}

func TestSweepRejections(t *testing.T) {
	f := setUp(t)
	old := f.rejected(f.crm, 3)
	f.record(f.db, old, f.rejectionCount(f.crm, "mismatch", 3))
	f.clock.Advance(time.Hour)
	young := f.rejection(f.crm)
	f.record(f.db, []eventhook.Rejection{young})
	sweep := func() int {
		n, err := f.db.SweepRejections(t.Context())
		f.must(err)
		return n
	}
	f.clock.Advance(30*day - 2*time.Hour)
	same(t, "removed too early", sweep(), 0)
	f.clock.Advance(time.Hour)
	same(t, "removed in time", sweep(), 3)
	same(t, "removed again", sweep(), 0)
	list, counts := f.rejections()
	same(t, "left", list, []eventhook.Rejection{young})
	same(t, "counts stay", len(counts), 1)
}

func TestSweepRejectionsSkipsLockedRows(t *testing.T) {
	f := setUp(t)
	list := f.rejected(f.crm, 3)
	f.record(f.db, list)
	f.clock.Advance(31 * day)
	tx, err := f.other.work.Begin(t.Context())
	f.must(err)
	_, err = tx.Exec(t.Context(), `SELECT FROM eventhook.rejection WHERE id = $1 FOR UPDATE`, [16]byte(list[1].ID))
	f.must(err)
	n, err := f.db.SweepRejections(t.Context())
	f.must(err)
	f.must(tx.Rollback(t.Context()))
	same(t, "removed", n, 2)
}
