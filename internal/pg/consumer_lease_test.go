package pg

import (
	"slices"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/ingest/consume"
)

const testLease = 15 * time.Second

func (f *fixture) claim(db *DB, max int, overdue time.Duration) (slugs []string, leases []consume.Lease) {
	f.Helper()
	leases, err := db.ClaimConsumers(f.Context(), max, testLease, overdue)
	f.must(err)
	for _, l := range leases {
		slugs = append(slugs, l.Slug)
	}
	slices.Sort(slugs)
	return slugs, leases
}

func (f *fixture) renew(db *DB, leases []consume.Lease, state eventhook.ConsumerState) []consume.Lease {
	f.Helper()
	reports := make([]consume.Report, len(leases))
	for i, l := range leases {
		reports[i] = consume.Report{Lease: l, State: state}
	}
	kept, err := db.RenewConsumers(f.Context(), reports, testLease)
	f.must(err)
	return kept
}

func (f *fixture) stateOf(slug string) eventhook.ConsumerState {
	f.Helper()
	_, id := f.sourceID("acme", slug)
	states, err := f.db.ConsumerStates(f.Context(), []eventhook.SourceID{id, f.crm})
	f.must(err)
	same(f, "states", len(states), 1) // crm receives webhooks
	return states[id]
}

// consumersOf applies acme with sources that consume messages.
func (f *fixture) consumersOf(slugs ...string) {
	f.Helper()
	c := acme()
	for _, slug := range slugs {
		c.Sources = append(c.Sources, consuming(slug, queueOf("a")).Sources[len(acme().Sources)])
	}
	f.apply(c)
}

func TestOneInstanceAtATimeHasTheLeaseOfASource(t *testing.T) {
	f := setUp(t)
	f.consumersOf("a", "b", "c")
	first, held := f.claim(f.db, 2, 0)
	same(t, "claimed by the first instance", len(first), 2)
	claimed := f.stateOf(first[0])
	same(t, "status after the claim", claimed.Status, eventhook.ConsumerWaiting)
	same(t, "error after the claim", claimed.Error, consume.Connecting)
	rest, _ := f.claim(f.other, 5, 0)
	slugs := slices.Sorted(slices.Values(slices.Concat(first, rest)))
	same(t, "claimed by both instances", slugs, []string{"a", "b", "c"})
	running := eventhook.ConsumerState{Status: eventhook.ConsumerFailed, Error: "broken", Since: noon, Lag: new(int64(7))}
	kept := f.renew(f.db, held, running)
	same(t, "kept", len(kept), 2)
	state := f.stateOf(first[0])
	running.Instance = f.db.Instance()
	state.Since = state.Since.UTC()
	same(t, "state", state, running)

	f.exec(`UPDATE eventhook.source_consumer SET lease_until = now() - interval '1 s'`) // as if the first instance had ended
	same(t, "without an instance", f.stateOf("a").Status, eventhook.ConsumerWaiting)
	slugs, _ = f.claim(f.other, 5, time.Minute)
	same(t, "overdue for a minute", len(slugs), 0)
	slugs, _ = f.claim(f.other, 5, 0)
	same(t, "claimed after the lease", slugs, []string{"a", "b", "c"})
	same(t, "kept after the lease was lost", len(f.renew(f.db, held, running)), 0)
}

func TestALeaseThatIsReleasedIsFreeAtOnce(t *testing.T) {
	f := setUp(t)
	f.consumersOf("a")
	_, held := f.claim(f.db, 1, 0)
	changed := f.db.ConsumersChanged()
	f.must(f.other.ReleaseConsumers(t.Context(), held)) // not its own
	slugs, _ := f.claim(f.other, 1, 0)
	same(t, "claimed while another instance has it", len(slugs), 0)
	f.must(f.db.ReleaseConsumers(t.Context(), held))
	<-changed
	slugs, _ = f.claim(f.other, 1, 0)
	same(t, "claimed", slugs, []string{"a"})
}

func TestOnlyActiveSourcesAreLeased(t *testing.T) {
	f := setUp(t)
	f.consumersOf("a", "b")
	_, held := f.claim(f.db, 2, 0)
	f.must(f.setEnabled("a", false))
	kept := f.renew(f.db, held, eventhook.ConsumerState{Status: eventhook.ConsumerRunning, Since: noon})
	same(t, "kept", len(kept), 1)
	same(t, "kept source", kept[0].Slug, "b")
	same(t, "state of a disabled source", f.stateOf("a").Status, eventhook.ConsumerStopped)
	sources, _, err := f.db.ConsumerDemand(t.Context(), 10)
	f.must(err)
	same(t, "sources to consume", sources, 1)
	f.exec(`UPDATE eventhook.tenant SET status = 'suspended'`)
	same(t, "kept by a suspended tenant", len(f.renew(f.db, held, eventhook.ConsumerState{Status: eventhook.ConsumerRunning, Since: noon})), 0)
	f.exec(`UPDATE eventhook.tenant SET status = 'active'; UPDATE eventhook.source_consumer SET lease_until = now() - interval '1 s'`)
	slugs, _ := f.claim(f.other, 5, 0)
	same(t, "claimed", slugs, []string{"b"})
}

// A tenant with many sources leaves places to a tenant with one, although its sources have been free for longer.
func TestTenantsWithFewLeasesClaimFirst(t *testing.T) {
	f := setUp(t)
	f.consumersOf("a1", "a2", "a3", "a4")
	other := eventhook.TenantConfig{Tenant: eventhook.Tenant{Slug: "globex", Name: "Globex", Status: eventhook.TenantActive}}
	for _, slug := range []string{"b1", "b2"} {
		other.Sources = append(other.Sources, consuming(slug, queueOf("b")).Sources[len(acme().Sources)])
	}
	f.apply(other)
	f.exec(`UPDATE eventhook.source_consumer c SET lease_until = now() - interval '1 h' + ascii(slug) * interval '10 s' + ascii(right(slug, 1)) * interval '1 s'
FROM eventhook.source s WHERE s.id = c.source_id`) // a1 is free for longest, b2 for the shortest time
	slugs, _ := f.claim(f.db, 2, 0)
	same(t, "claimed at once", slugs, []string{"a1", "b1"})
	slugs, _ = f.claim(f.db, 1, 0)
	same(t, "claimed with equal leases", slugs, []string{"a2"})
	slugs, _ = f.claim(f.other, 1, 0)
	same(t, "claimed by another instance", slugs, []string{"b2"})
	slugs, _ = f.claim(f.other, 5, 0)
	same(t, "the rest", slugs, []string{"a3", "a4"})
}

func (f *fixture) setEnabled(slug string, isEnabled bool) error {
	_, err := f.db.UpdateSource(f.Context(), operator, f.tenant, slug, 0, func(s eventhook.Source) (eventhook.Source, error) {
		s.IsEnabled = isEnabled
		return s, nil
	})
	return err
}

func TestInstancesTellTheirCapacities(t *testing.T) {
	f := setUp(t)
	f.consumersOf("a", "b")
	demand := func(db *DB, capacity int) []int {
		sources, capacities, err := db.ConsumerDemand(t.Context(), capacity)
		f.must(err)
		same(t, "sources", sources, 2)
		slices.Sort(capacities)
		return capacities
	}
	same(t, "one instance", demand(f.db, 10), []int{10})
	same(t, "two instances", demand(f.other, 5), []int{5, 10})
	f.exec(`UPDATE eventhook.consumer_instance SET at = at - interval '20 s'`)
	same(t, "after one has ended", demand(f.other, 5), []int{5})
	f.exec(`UPDATE eventhook.consumer_instance SET at = at - interval '2 min'`)
	deleted, err := f.db.SweepConsumers(t.Context())
	f.must(err)
	same(t, "deleted", deleted, 2)
}

// The row of a consumer tells when the consumer started. It stopped when its source, or its tenant, was changed.
func TestAStoppedConsumerTellsWhenItWasStopped(t *testing.T) {
	f := setUp(t)
	f.consumersOf("a")
	_, held := f.claim(f.db, 1, 0)
	f.renew(f.db, held, eventhook.ConsumerState{Status: eventhook.ConsumerRunning, Since: noon})
	since := func() time.Time { return f.stateOf("a").Since.UTC() }
	same(t, "running since", since(), noon)
	at := func(minutes int) time.Time { return noon.Add(time.Duration(minutes) * time.Minute) }
	for _, c := range []struct {
		claim, status    string
		isEnabled        bool
		tenantAt, source int // minutes
		want             time.Time
	}{
		{"a disabled source", "active", false, 9, 5, at(5)},
		{"a suspended tenant", "suspended", true, 9, 5, at(9)},
		{"both, the source first", "suspended", false, 9, 5, at(5)},
		{"both, the tenant first", "suspended", false, 4, 5, at(4)},
		{"a source that runs again", "active", true, 9, 5, noon},
	} {
		f.exec(`UPDATE eventhook.tenant SET status = $1, updated_at = $2`, c.status, at(c.tenantAt))
		f.exec(`UPDATE eventhook.source SET is_enabled = $1, updated_at = $2`, c.isEnabled, at(c.source))
		same(t, c.claim, since(), c.want)
	}
}
