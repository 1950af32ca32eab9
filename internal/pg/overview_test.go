package pg

import (
	"testing"
	"time"

	"github.com/eventhook/eventhook"
)

func lastHour() eventhook.TrafficWindow {
	return eventhook.TrafficWindowAt(noon, eventhook.TrafficMinute, 60)
}

// traffic adds counts of a minute, as an instance does, through a slot.
func (f *fixture) traffic(slot int, of eventhook.TrafficOf, at time.Time, t eventhook.Traffic) {
	f.Helper()
	of.TenantID = f.tenant
	counts := []eventhook.TrafficCount{{TrafficOf: of, Span: eventhook.TrafficMinute, At: at, Traffic: t}}
	if tenant := (eventhook.TrafficOf{TenantID: f.tenant}); of != tenant {
		counts = append(counts, eventhook.TrafficCount{TrafficOf: tenant, Span: eventhook.TrafficMinute, At: at, Traffic: t})
	}
	f.must(f.db.AddTraffic(f.Context(), slot, counts))
}

func (f *fixture) overview() eventhook.Overview {
	f.Helper()
	x, err := f.other.Overview(f.Context(), f.tenant, lastHour())
	f.must(err)
	return x
}

func latency(all ...time.Duration) (t eventhook.Traffic) {
	for _, d := range all {
		t.Latency.Observe(d)
	}
	t.Sent = int64(len(all))
	return t
}

func TestOverviewsSumTheTrafficOfInstances(t *testing.T) {
	f := setUp(t)
	source := eventhook.TrafficOf{SourceID: f.crm}
	counted := eventhook.Traffic{Received: 8, Refused: 7, Duplicates: 6, Succeeded: 5, Failed: 4, Sent: 3, FailedAttempts: 2, Dead: 1}
	f.traffic(1, source, noon, counted)
	f.traffic(1, source, noon, counted) // the same row
	f.traffic(2, source, noon, counted)
	f.traffic(1, eventhook.TrafficOf{}, noon, latency(time.Millisecond, time.Hour))
	f.traffic(1, eventhook.TrafficOf{}, noon, latency(time.Millisecond))
	f.traffic(1, source, noon.Add(-59*time.Minute), eventhook.Traffic{Received: 1})
	f.traffic(1, source, noon.Add(-time.Hour), eventhook.Traffic{Received: 100}) // before the window
	second := f.secondTenant()
	f.must(f.db.AddTraffic(t.Context(), 1, []eventhook.TrafficCount{{TrafficOf: eventhook.TrafficOf{TenantID: second},
		Span: eventhook.TrafficMinute, At: noon, Traffic: eventhook.Traffic{Received: 1000}}}))

	want := eventhook.Traffic{}
	for range 3 {
		want.Add(counted)
	}
	minute, err := f.other.SourceTraffic(t.Context(), f.tenant, f.crm, eventhook.TrafficWindowAt(noon.Add(59*time.Second), eventhook.TrafficMinute, 1))
	f.must(err)
	same(t, "the traffic of a source in a minute", minute, want)
	elsewhere, err := f.other.SourceTraffic(t.Context(), second, f.crm, lastHour())
	f.must(err)
	same(t, "the traffic that another tenant sees", elsewhere, eventhook.Traffic{})
	x := f.overview()
	same(t, "sources", len(x.Sources), 2)
	same(t, "number of sources", x.SourceCount, 2)
	ofSource := want
	ofSource.Received++
	same(t, "the refusing source is first", x.Sources[0].Slug, "crm")
	same(t, "its traffic", x.Sources[0].Traffic, ofSource)
	same(t, "its last event", x.Sources[0].LastReceivedAt.UTC(), noon)
	same(t, "an idle source has a last event", x.Sources[1].LastReceivedAt != nil, false)
	want.Add(latency(time.Millisecond, time.Millisecond, time.Hour))
	same(t, "series", x.Series, map[time.Time]eventhook.Traffic{noon: want, noon.Add(-59 * time.Minute): {Received: 1}})

	all, err := f.db.GatewayOverview(t.Context(), lastHour())
	f.must(err)
	same(t, "received by all tenants", all.Series[noon].Received, want.Received+1000)
	same(t, "tenants", []string{all.Tenants[0].Slug, all.Tenants[1].Slug}, []string{"acme", "umbrella"})
	same(t, "number of tenants", all.TenantCount, 2)
	same(t, "received by the second", all.Tenants[1].Received, int64(1000))
}

func TestAHealthyTenantNeedsNobody(t *testing.T) {
	f := setUp(t)
	f.subscription()
	f.traffic(1, eventhook.TrafficOf{SourceID: f.crm}, noon, eventhook.Traffic{Received: 9, Succeeded: 9, Sent: 9, FailedAttempts: 1})
	f.must(f.db.AddTenantCounts(t.Context(), 1, []eventhook.TenantCount{{TenantID: f.tenant, Day: today, Events: 9, Bytes: 9}}))
	same(t, "attention", len(f.overview().Attention), 0)
	all, err := f.db.GatewayOverview(t.Context(), lastHour())
	f.must(err)
	same(t, "attention of all", len(all.Attention), 0)
}

// wantAttention checks that exactly one item needs a person, in both overviews.
func (f *fixture) wantAttention(want eventhook.Attention) {
	f.Helper()
	all, err := f.db.GatewayOverview(f.Context(), lastHour())
	f.must(err)
	for _, list := range [][]eventhook.Attention{f.overview().Attention, all.Attention} {
		if len(list) != 1 {
			f.Fatalf("got %d items %+v, want 1", len(list), list)
		}
		got := list[0]
		if got.Since != nil {
			got.Since = new(got.Since.UTC())
		}
		want.TenantID = f.tenant
		same(f, "attention", got, want)
	}
}

func TestADisabledSubscriptionNeedsAPerson(t *testing.T) {
	f := setUp(t)
	s := f.subscription()
	list := f.claimedDeliveries(3, &s)
	f.settleDeliveries(f.db, f.settlement(list[0], eventhook.DeliveryDead), f.settlement(list[1], eventhook.DeliveryFailed))
	f.exec(`UPDATE eventhook.subscription_health SET failing_since = $2, next_probe_at = $2 WHERE subscription_id = $1`, [16]byte(s.ID), noon)
	f.exec(`UPDATE eventhook.delivery SET last_error = '500 from billing.example'`)
	f.exec(`UPDATE eventhook.subscription SET status = 'disabled', disabled_by = 'failures', disabled_reason = 'too many failures'`)
	want := eventhook.Attention{Type: eventhook.AttentionSubscriptionDisabled, IsCritical: true, ResourceType: "subscription",
		ResourceID: s.ID.String(), Name: "billing", Count: 3, Since: new(noon), Reason: "500 from billing.example",
		Summary: "The subscription billing to billing.example is disabled: 3 deliveries are missed."}
	f.wantAttention(want)
	x := f.overview().Subscriptions[0]
	same(t, "missed", x.Missed, 3)
	same(t, "last error", x.LastError, "500 from billing.example")
	same(t, "circuit", x.Circuit, eventhook.CircuitOpen)

	f.exec(`UPDATE eventhook.subscription SET status = 'active', disabled_by = NULL, disabled_reason = NULL`)
	want.Type, want.Summary = eventhook.AttentionCircuitOpen, "The subscription billing to billing.example is failing: 3 deliveries are missed."
	f.wantAttention(want)
	f.exec(`UPDATE eventhook.subscription_health SET failing_since = NULL`)
	f.exec(`UPDATE eventhook.subscription SET status = 'disabled', disabled_by = 'user'`)
	same(t, "disabled by a user", len(f.overview().Attention), 0)
}

func TestDeadDeliveriesNeedAPerson(t *testing.T) {
	f := setUp(t)
	s := f.subscription()
	f.settleDeliveries(f.db, f.settlement(f.claimedDeliveries(1, &s)[0], eventhook.DeliveryDead))
	f.exec(`UPDATE eventhook.delivery SET last_error = 'refused' WHERE status = 'dead'`)
	same(t, "without a dead delivery in the window", len(f.overview().Attention), 0)
	f.traffic(1, eventhook.TrafficOf{SubscriptionID: s.ID}, noon, eventhook.Traffic{Dead: 1})
	f.wantAttention(eventhook.Attention{Type: eventhook.AttentionDeliveriesDead, IsCritical: true, ResourceType: "delivery", Count: 1,
		Since: new(noon), Reason: "refused", Summary: "1 delivery became dead in the last hour. Dead deliveries are sent again only if they are retried or replayed."})
	f.exec(`UPDATE eventhook.delivery SET status = 'success', last_error = NULL WHERE status = 'dead'`)
	same(t, "once it was sent", len(f.overview().Attention), 0)
}

func TestRefusedRequestsNeedAPerson(t *testing.T) {
	f := setUp(t)
	f.record(f.db, nil, f.rejectionCount(f.crm, "mismatch", 30), f.rejectionCount(f.crm, "expired", 8))
	f.traffic(1, eventhook.TrafficOf{SourceID: f.crm}, noon, eventhook.Traffic{Refused: 38})
	f.wantAttention(eventhook.Attention{Type: eventhook.AttentionRequestsRefused, ResourceType: "source", ResourceID: "crm", Name: "crm",
		Count: 38, Since: new(noon), Reason: "mismatch", Summary: "The source crm refused 38 requests in the last hour."})
}

func TestDeadExecutionsNeedAPerson(t *testing.T) {
	f := setUp(t)
	x, old := f.start(), f.start()
	f.exec(`UPDATE eventhook.execution SET status = 'dead', due_at = NULL, completed_at = $2, error = 'no disk' WHERE id = $1`, [16]byte(x.ID), noon)
	f.exec(`UPDATE eventhook.execution SET status = 'dead', due_at = NULL, completed_at = $2 WHERE id = $1`, [16]byte(old.ID), noon.Add(-2*time.Hour))
	f.wantAttention(eventhook.Attention{Type: eventhook.AttentionExecutionsDead, ResourceType: "execution", ResourceID: x.ID.String(), Name: "build",
		Count: 1, Since: new(noon), Reason: "no disk", Summary: "1 execution died in the last hour after the last attempt."})
}

func TestAnOfflineAgentThatHoldsDeliveriesNeedsAPerson(t *testing.T) {
	f := setUp(t)
	a, s := f.agent("eu", "region:eu"), f.subscription()
	d := f.publishTo(1, &s)[0]
	f.must(f.db.SeenAgents(t.Context(), []eventhook.AgentSighting{{ID: a.ID}}))
	seen := f.clock.Now()
	f.hold(a, d, seen)
	same(t, "online", len(f.overview().Attention), 0)
	f.clock.Advance(eventhook.AgentOfflineAfter)
	f.wantAttention(eventhook.Attention{Type: eventhook.AttentionAgentOffline, ResourceType: "agent", ResourceID: a.ID.String(), Name: "eu",
		Count: 1, Since: new(seen.UTC()), Summary: "The agent eu is offline and holds 1 delivery."})
}

func TestAQuotaThatIsNearlyUsedNeedsAPerson(t *testing.T) {
	f := setUp(t)
	f.exec(`UPDATE eventhook.tenant SET max_events_per_day = 100, max_storage_bytes = 1000 WHERE slug = 'acme'`)
	f.countTenant(f.db, 1, today.Add(-day), 100, 100)
	f.countTenant(f.db, 1, today, 90, 100)
	same(t, "90 %", len(f.overview().Attention), 0)
	f.countTenant(f.db, 2, today, 1, 1)
	want := eventhook.Attention{Type: eventhook.AttentionQuota, ResourceType: "tenant", ResourceID: "acme", Name: "Acme", Count: 91,
		Reason: "max_events_per_day", Summary: "The tenant has used 91 % of its events per day."}
	f.wantAttention(want)
	f.countTenant(f.db, 2, today, 9, 1)
	want.Count, want.IsCritical, want.Summary = 100, true, "The tenant has used 100 % of its events per day."
	f.wantAttention(want)
	f.exec(`UPDATE eventhook.tenant SET max_events_per_day = NULL, max_storage_bytes = 210 WHERE slug = 'acme'`)
	want.Count, want.IsCritical, want.Reason = 96, false, "max_storage_bytes"
	want.Summary = "The tenant has used 96 % of its storage."
	f.wantAttention(want)
}

func TestAKeyThatExpiresSoonNeedsAPerson(t *testing.T) {
	f := setUp(t)
	soon, later := noon.Add(7*day-time.Second), noon.Add(7*day)
	key := func(name string, at time.Time) eventhook.APIKey {
		k, err := f.db.CreateKey(t.Context(), operator, eventhook.APIKey{TenantID: f.tenant, Name: name, Prefix: "ehk_", Scopes: []eventhook.Scope{"read"},
			ExpiresAt: &at}, hashed(name))
		f.must(err)
		return k
	}
	key("later", later)
	k := key("ci", soon)
	f.wantAttention(eventhook.Attention{Type: eventhook.AttentionKeyExpiring, ResourceType: "api_key", ResourceID: k.ID.String(), Name: "ci",
		Since: new(soon), Summary: "The key ci expires on 17 March 2026 at 11:59 UTC."})
}

func TestASecretThatWaitsToBeRevealedNeedsAPerson(t *testing.T) {
	f := setUp(t)
	f.exec(`UPDATE eventhook.source SET provider = 'notion' WHERE slug = 'crm'`)
	f.must(f.db.StoreLearnedSecret(t.Context(), f.crm, eventhook.NewSecret("s3cr3t")))
	f.wantAttention(eventhook.Attention{Type: eventhook.AttentionHandshake, ResourceType: "source", ResourceID: "crm", Name: "crm",
		Since: new(noon), Reason: "notion",
		Summary: "The secret that the source crm has received waits to be revealed and confirmed at the provider."})
}

func TestWhatIsCriticalComesFirst(t *testing.T) {
	f := setUp(t)
	f.traffic(1, eventhook.TrafficOf{SourceID: f.crm}, noon, eventhook.Traffic{Refused: 1})
	f.exec(`UPDATE eventhook.tenant SET max_events_per_day = 100 WHERE slug = 'acme'`)
	f.countTenant(f.db, 1, today, 95, 0)
	s := f.subscription()
	f.settleDeliveries(f.db, f.settlement(f.claimedDeliveries(1, &s)[0], eventhook.DeliveryDead))
	f.traffic(1, eventhook.TrafficOf{}, noon, eventhook.Traffic{Dead: 1})
	types := func() (list []eventhook.AttentionType) {
		for _, a := range f.overview().Attention {
			list = append(list, a.Type)
		}
		return list
	}
	same(t, "order", types(), []eventhook.AttentionType{eventhook.AttentionDeliveriesDead, eventhook.AttentionQuota, eventhook.AttentionRequestsRefused})
	f.exec(`DELETE FROM eventhook.traffic WHERE dead > 0`)
	f.countTenant(f.db, 1, today, 9, 0)
	f.exec(`UPDATE eventhook.tenant SET max_storage_bytes = 0 WHERE slug = 'acme'`) // nothing fits, and nothing is used
	same(t, "a used quota", types(), []eventhook.AttentionType{eventhook.AttentionQuota, eventhook.AttentionRequestsRefused})
}

func TestQueuesOfATenant(t *testing.T) {
	f := setUp(t)
	f.secondTenant()
	f.start()
	f.start(f.dueIn(time.Hour))
	f.start(func(x *eventhook.Execution) { x.Queue = "mail" })
	f.clock.Advance(time.Minute)
	f.claimWork(f.db, eventhook.WorkQuery{Tenant: f.tenant, Queue: "mail", Max: 1, Lease: lease})
	list, err := f.db.WorkQueues(t.Context(), f.tenant)
	f.must(err)
	for i := range list {
		if list[i].OldestDueAt != nil {
			list[i].OldestDueAt = new(list[i].OldestDueAt.UTC())
		}
	}
	same(t, "queues", list, []eventhook.WorkQueue{{Queue: "ci", Waiting: 2, Due: 1, OldestDueAt: new(noon)}, {Queue: "mail", Running: 1}})

	s, paused := f.subscription(), f.subscription()
	f.exec(`UPDATE eventhook.subscription SET status = 'paused' WHERE id = $1`, [16]byte(paused.ID))
	f.publishTo(2, &paused)
	published := f.clock.Now()
	f.publishTo(1, &s)
	f.event(func(e *eventhook.Event) { e.Lease.Until = f.clock.Now() })
	f.clock.Advance(time.Minute)
	q := f.overview().Queues
	same(t, "executions", q.Executions, eventhook.WaitingWork{Waiting: 2 + 1, OldestAge: f.clock.Now().Sub(noon)})
	same(t, "deliveries", q.Deliveries, eventhook.WaitingWork{Waiting: 3, OldestAge: f.clock.Now().Sub(published.Add(time.Millisecond))})
	all, err := f.db.GatewayOverview(t.Context(), lastHour())
	f.must(err)
	same(t, "deliveries of all", all.Queues.Deliveries.Waiting, 3)
}

func TestSweepTraffic(t *testing.T) {
	f := setUp(t)
	f.traffic(1, eventhook.TrafficOf{}, noon.Add(-25*time.Hour), eventhook.Traffic{Received: 1})
	f.traffic(1, eventhook.TrafficOf{}, noon.Add(-25*time.Hour-time.Minute), eventhook.Traffic{Received: 1})
	n, err := f.db.SweepUsage(t.Context(), Retention{})
	f.must(err)
	same(t, "swept", n, 1)
	same(t, "left", f.count("traffic", "true"), 1)
}
