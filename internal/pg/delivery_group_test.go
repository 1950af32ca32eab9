package pg

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound"
)

// kill publishes a delivery for each error, newest last, and makes it dead with the error.
func (f *fixture) kill(to *eventhook.Subscription, errors ...string) (list []*eventhook.Delivery) {
	f.Helper()
	f.publishTo(len(errors), to)
	list = f.claimDeliveries(f.db, len(errors), to)
	slices.SortFunc(list, func(x, y *eventhook.Delivery) int { return slices.Compare(x.ID[:], y.ID[:]) })
	var batch []*outbound.DeliverySettlement
	for i, d := range list {
		batch = append(batch, f.settlement(d, eventhook.DeliveryDead, func(s *outbound.DeliverySettlement) { s.LastError, s.DeadInRow = errors[i], 0 }))
	}
	f.settleDeliveries(f.db, batch...)
	return list
}

const (
	answered500 = "billing.example answered 500 Internal Server Error"
	gaveUp      = "billing.example answered 500 Internal Server Error (not retried: it would be older than 24h by then)"
	tooOld      = "not sent: it is older than 24h"
)

func (f *fixture) deadGroups(filter eventhook.DeliveryFilter) eventhook.DeadGroups {
	f.Helper()
	found, err := f.db.DeadGroups(f.Context(), f.tenant, filter)
	f.must(err)
	return found
}

// counts returns the counts of groups by their causes.
func counts(found eventhook.DeadGroups) map[string]int {
	all := map[string]int{}
	for _, g := range found.Groups {
		all[g.Cause] += g.Count
	}
	return all
}

func TestDeadDeliveriesAreGroupedByCause(t *testing.T) {
	f := setUp(t)
	s := f.insertSubscription()
	f.clock.Advance(time.Millisecond)
	other := f.insertSubscription()
	dead := f.kill(s, answered500, tooOld, gaveUp, "agent gave up on job 17", "agent gave up on job 4711")
	f.kill(other, answered500)
	f.publishTo(1, s) // is pending
	found := f.deadGroups(eventhook.DeliveryFilter{SubscriptionID: s.ID})
	same(t, "groups", counts(found), map[string]int{"500": 2, "too old": 1, "agent gave up on job …": 2})
	same(t, "scanned", []any{found.Scanned, found.ScannedUntil.IsZero()}, []any{5, true})
	i := slices.IndexFunc(found.Groups, func(g eventhook.DeadGroup) bool { return g.Cause == "500" })
	same(t, "status and samples", []any{found.Groups[i].StatusCode, found.Groups[i].Samples, found.Groups[i].SubscriptionID},
		[]any{500, deliveryIDs(dead[0], dead[2]), s.ID})
	same(t, "of the tenant", len(f.deadGroups(eventhook.DeliveryFilter{}).Groups), 4)
	later := eventhook.DeliveryFilter{SubscriptionID: s.ID, CreatedAfter: dead[2].ID.Time()}
	same(t, "after a time", counts(f.deadGroups(later)), map[string]int{"agent gave up on job …": 2})
	foreign, err := f.db.DeadGroups(t.Context(), f.secondTenant(), eventhook.DeliveryFilter{SubscriptionID: s.ID})
	f.must(err)
	same(t, "of another tenant", len(foreign.Groups), 0)
}

func TestAnUnfinishedCountOfDeadDeliveriesSaysSo(t *testing.T) {
	f := setUp(t)
	s := f.insertSubscription()
	dead := f.kill(s, slices.Repeat([]string{answered500, tooOld}, 4)...)
	filter := eventhook.DeliveryFilter{SubscriptionID: s.ID}
	found, err := f.db.lists.deadGroups(t.Context(), f.tenant, filter, scanLimits{step: 2, rows: 4, time: time.Hour}, f.clock.Now)
	f.must(err)
	same(t, "counted", []any{counts(found), found.Scanned, found.ScannedUntil}, []any{map[string]int{"500": 2, "too old": 2}, 4, dead[4].ID.Time()})
	all, err := f.db.lists.deadGroups(t.Context(), f.tenant, filter, scanLimits{step: 3, rows: 100, time: time.Hour}, f.clock.Now)
	f.must(err)
	same(t, "in steps", []any{counts(all), all.Scanned, all.ScannedUntil.IsZero()}, []any{map[string]int{"500": 4, "too old": 4}, 8, true})
}

func TestRestartOfAGroup(t *testing.T) {
	f := setUp(t)
	s := f.insertSubscription()
	f.clock.Advance(time.Millisecond)
	other := f.insertSubscription()
	dead := f.kill(s, answered500, tooOld, gaveUp)
	f.kill(other, answered500)
	key := eventhook.DeadGroupKey(eventhook.DestinationID(s.ID), "500")
	group := func(limit int, expected *int) eventhook.DeliverySelection {
		return eventhook.DeliverySelection{Group: key, Limit: limit, ExpectedCount: expected, Statuses: []eventhook.DeliveryStatus{eventhook.DeliveryDead}}
	}
	_, err := f.db.RestartDeliveries(t.Context(), operator, f.tenant, group(9, new(3)))
	wantKind(t, "with a wrong count", err, eventhook.KindConflict)
	foreign, err := f.db.RestartDeliveries(t.Context(), operator, f.secondTenant(), group(9, nil))
	f.must(err)
	same(t, "of another tenant", len(foreign), 0)
	same(t, "with a limit, the newest", f.restart(group(1, new(2))), deliveryIDs(dead[2]))
	same(t, "the rest", f.restart(group(9, nil)), deliveryIDs(dead[0]))
	same(t, "again", len(f.restart(group(9, new(0)))), 0)
}

func TestNamesOfDestinations(t *testing.T) {
	f := setUp(t)
	s, err := f.db.CreateSubscription(t.Context(), operator, eventhook.Subscription{TenantID: f.tenant, Name: "crm", Status: eventhook.SubscriptionActive, EventTypes: []string{"*"},
		SubscriptionSecrets: eventhook.SubscriptionSecrets{URL: eventhook.NewSecret("https://Billing.example:8443/hook?t=secret"),
			Signing: []eventhook.SigningSecret{{Secret: eventhook.NewSecret("whsec_x")}}}})
	f.must(err)
	f.exec(`UPDATE eventhook.route SET targets = '[{"type":"task","task_kind":"x"},{"type":"http","url":"https://internal.example/hook"}]', target_secrets = NULL WHERE id = $1`, [16]byte(f.route.ID))
	groups := []eventhook.DeadGroup{{SubscriptionID: s.ID}, {RouteID: f.route.ID, TargetIndex: 1}, {RouteID: f.route.ID}, {SubscriptionID: eventhook.NewID[eventhook.Subscription](noon)}}
	names, err := f.db.DestinationNames(t.Context(), f.tenant, groups)
	f.must(err)
	same(t, "names", names, []eventhook.DestinationName{{Name: "crm", Host: "billing.example:8443"}, {Name: f.route.Name, Host: "internal.example"}, {}, {}})
	names, err = f.db.DestinationNames(t.Context(), f.secondTenant(), groups)
	f.must(err)
	same(t, "for another tenant", fmt.Sprint(names), fmt.Sprint(make([]eventhook.DestinationName, 4)))
}
