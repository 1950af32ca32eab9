package api_test

import (
	"net/http"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound"
)

// settleOne claims the oldest due delivery of a subscription and settles it.
func (r *fixture) settleOne(of string, change func(*outbound.DeliverySettlement)) {
	r.Helper()
	to := eventhook.DestinationID(r.stored(of).ID)
	list, err := r.db.ClaimDeliveries(r.Context(), []outbound.Claim{{DestinationID: to, Max: 1, Lease: time.Minute}})
	r.must(err)
	if len(list) != 1 {
		r.Fatalf("claimed %d deliveries, want 1", len(list))
	}
	s := &outbound.DeliverySettlement{Delivery: list[0], Attempt: &eventhook.Attempt{StartedAt: r.clock.Now(), StatusCode: 204}, Status: eventhook.DeliverySuccess}
	change(s)
	_, err = r.db.SettleDeliveries(r.Context(), []*outbound.DeliverySettlement{s})
	r.must(err)
}

// wantOutage checks the members of a subscription that tell of an outage.
func (r *fixture) wantOutage(claim, of string, circuit object, missed float64, running any) {
	r.Helper()
	got := r.subscription(of)
	members := object{"circuit": got["circuit"], "missed_count": got["missed_count"], "running": got["recovery"].(object)["running"]}
	if diff := gocmp.Diff(object{"circuit": circuit, "missed_count": missed, "running": running}, members); diff != "" {
		r.Errorf("%s (-want +got):\n%s", claim, diff)
	}
}

func jsonTime(at time.Time) string { return at.UTC().Format(time.RFC3339Nano) }

func TestASubscriptionShowsItsOutageAndRecovery(t *testing.T) {
	r := setUp(t)
	id := r.subscribe("payment.made")
	since := r.clock.Now()
	for range 3 {
		r.clock.Advance(time.Millisecond)
		r.admin("POST", T("acme")+"/events", object{"event_type": "payment.made", "data": object{}}).want(http.StatusAccepted)
	}
	r.clock.Advance(time.Second)
	dead := func(s *outbound.DeliverySettlement) {
		s.Status, s.LastError, s.FailingSince, s.CircuitOpen = eventhook.DeliveryDead, "down", since, true
	}
	r.settleOne(id, dead)
	opened := r.clock.Now()
	closed := object{"state": "closed", "opened_at": nil, "next_probe_at": nil}
	open := object{"state": "open", "opened_at": jsonTime(opened), "next_probe_at": jsonTime(opened.Add(time.Minute))}
	r.wantOutage("one dead and two waiting", id, open, 3, nil)
	r.clock.Advance(time.Minute)
	open["state"] = "half_open"
	r.wantOutage("a probe is due", id, open, 3, nil)

	r.settleOne(id, func(*outbound.DeliverySettlement) {})
	ended := r.clock.Now()
	got := r.subscription(id)["recovery"].(object)["running"].(object)
	running := object{"replay_id": got["replay_id"], "since": jsonTime(since.Add(-10 * time.Second)), "until": jsonTime(ended), "queued": 0.0, "sent": 0.0, "failed": 0.0}
	r.wantOutage("after a success", id, closed, 2, running)
	r.workReplays()
	running["queued"] = 1.0
	r.wantOutage("the dead delivery is queued", id, closed, 2, running)
	for range 2 {
		r.settleOne(id, func(*outbound.DeliverySettlement) {})
	}
	r.clock.Advance(time.Minute)
	r.workReplays()
	r.wantOutage("after the recovery", id, closed, 0, nil)
}
