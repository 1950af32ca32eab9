package pg

import (
	"testing"

	"github.com/eventhook/eventhook"
)

// wantHolder checks which instance holds a delivery of acme.
func (f *fixture) wantHolder(claim string, id eventhook.DeliveryID, want eventhook.InstanceID) {
	f.Helper()
	d, _ := f.delivery(id)
	same(f, claim+": holder", d.AcquiredBy, eventhook.HolderID(want))
	same(f, claim+": has an end", d.AcquiredUntil != nil, !want.IsZero())
	if d.AcquiredUntil != nil {
		same(f, claim+": end", d.AcquiredUntil.UTC(), f.clock.Now().Add(lease).UTC())
	}
}

func TestADeliveryShowsTheInstanceThatHoldsIt(t *testing.T) {
	f := setUp(t)
	s := f.insertSubscription()
	plain, ordered := f.newPublication("", s), f.ordered(s, "a")
	effect := f.publishAction("payment.made", "", `{}`, s)
	effect.Effect.Publication.Deliveries[0].Lease.Until = f.clock.Now().Add(lease)
	plain.Deliveries[0].Lease.Until, ordered.Deliveries[0].Lease.Until = f.clock.Now().Add(lease), f.clock.Now().Add(lease)
	f.publish(f.db, plain, ordered)
	f.accept(f.other, f.arrival(f.event(), effect))
	f.wantHolder("published", plain.Deliveries[0].ID, f.db.Instance())
	f.wantHolder("ordered", ordered.Deliveries[0].ID, f.db.Instance())
	f.wantHolder("of a route", effect.Effect.Publication.Deliveries[0].ID, f.other.Instance())
	f.settleDeliveries(f.db, f.settlement(plain.Deliveries[0], eventhook.DeliverySuccess))
	f.wantHolder("sent", plain.Deliveries[0].ID, eventhook.InstanceID{})

	due := f.publishTo(1, s)[0]
	f.wantHolder("due", due.ID, eventhook.InstanceID{})
	f.claimDeliveries(f.other, 1, s)
	f.wantHolder("claimed", due.ID, f.other.Instance())
}

func TestAClaimOfAnInstanceEndsTheLeasesOfAgents(t *testing.T) {
	f := setUp(t)
	s := f.insertSubscription()
	d := f.publishTo(1, s)[0]
	f.hold(f.agent("berlin", "env:prod"), d, f.clock.Now())
	f.claimDeliveries(f.db, 1, s)
	f.wantHolder("taken over", d.ID, f.db.Instance())
	same(t, "held by agents", f.count("delivery", `agent_leases IS NOT NULL`), 0)
}
