package pg

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound"
)

// probed is a Directory with one receiver, and counts what it got.
type probed struct {
	f    *fixture
	mu   sync.Mutex
	got  []eventhook.DeliveryID
	says func(d *eventhook.Delivery) int // a status
}

func (p *probed) Destination(ctx context.Context, of eventhook.Destination) (outbound.Destination, error) {
	s, err := p.f.db.Subscription(ctx, of.TenantID, of.SubscriptionID)
	return outbound.SubscriptionDestination(&s, p), err
}

func (p *probed) Send(_ context.Context, d *eventhook.Delivery, _ int) eventhook.Attempt {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.got = append(p.got, d.ID)
	a := eventhook.Attempt{StartedAt: p.f.clock.Now(), StatusCode: p.says(d)}
	if a.StatusCode != 200 {
		a.ErrorClass, a.Error = eventhook.ErrorHTTP5xx, "no"
	}
	return a
}

func (p *probed) take() []eventhook.DeliveryID {
	defer func() { p.got = nil }()
	return p.got
}

type noObserver struct{}

func (noObserver) Started(*eventhook.Delivery, time.Duration)                           {}
func (noObserver) Attempted(eventhook.ErrorClass, time.Duration)                        {}
func (noObserver) SettledDeliveries([]*outbound.DeliverySettlement, int, time.Duration) {}
func (noObserver) Probed(outbound.ProbeResult)                                          {}

// outageFixture is a subscription that failures have disabled: of its deliveries, two are dead and
// two are held.
type outageFixture struct {
	*fixture
	*probed
	of   *eventhook.Subscription
	list []*eventhook.Delivery
}

func newOutage(t *testing.T) *outageFixture {
	f := setUp(t)
	s := f.subscription()
	return &outageFixture{f, &probed{f: f, says: answers(200)}, &s, f.disableByFailures(&s, 2, 2)}
}

// disableByFailures makes deliveries of a subscription dead, which disables it, and publishes
// more that are held. It returns all, oldest event first.
func (f *fixture) disableByFailures(s *eventhook.Subscription, dead, held int) []*eventhook.Delivery {
	f.Helper()
	list := f.claimedDeliveries(dead, s)
	for _, d := range list {
		f.settleDeliveries(f.db, f.settlement(d, eventhook.DeliveryDead, limit(dead)))
	}
	if held > 0 {
		list = append(list, f.publishTo(held, s)...)
	}
	f.deleteSystemDeliveries()
	return list
}

// deleteSystemDeliveries deletes the deliveries of events about failures.
func (f *fixture) deleteSystemDeliveries() {
	f.exec(`DELETE FROM eventhook.delivery WHERE event_type NOT LIKE 'payment.%'`)
}

func answers(status int) func(*eventhook.Delivery) int {
	return func(*eventhook.Delivery) int { return status }
}

// step lets an instance probe what is due, and returns the deliveries that it sent.
func (o *outageFixture) step(db *DB) []eventhook.DeliveryID {
	o.Helper()
	p := &outbound.Prober{Store: db, Directory: o.probed, Observer: noObserver{}, Log: slog.New(slog.DiscardHandler), Now: o.clock.Now, Lease: lease}
	_, err := p.Step(o.Context())
	o.must(err)
	return o.take()
}

func (o *outageFixture) status() eventhook.SubscriptionStatus {
	return o.storedSubscription(o.of.ID).Status
}

func TestAProbeSendsTheOldestMissedDelivery(t *testing.T) {
	o := newOutage(t)
	o.says = answers(503)
	began := o.clock.Now()
	same(t, "at once", len(o.step(o.db)), 0)
	for _, after := range []int{1, 5, 15, 75, 135} { // minutes
		o.clock.Advance(began.Add(time.Duration(after)*time.Minute - time.Second).Sub(o.clock.Now()))
		same(t, "before a probe is due", len(o.step(o.other)), 0)
		o.clock.Advance(time.Second)
		same(t, "sent", o.step(o.other), deliveryIDs(o.list[0]))
		same(t, "sent by another instance", len(o.step(o.db)), 0)
	}
	d, attempts := o.delivery(o.list[0].ID)
	same(t, "after failed probes", []any{d.Status, len(attempts), o.status()}, []any{eventhook.DeliveryDead, 6, eventhook.SubscriptionDisabled})
	same(t, "events about it", o.count("event", "event_type = 'system.webhook_delivery_failed'"), 2)

	o.says = answers(200)
	o.clock.Advance(time.Hour)
	same(t, "sent to the receiver that is back", o.step(o.db), deliveryIDs(o.list[0]))
	same(t, "it", o.status(), eventhook.SubscriptionActive)
	same(t, "the outage", o.outage(o.of), "dead:0")
	same(t, "recoveries", o.recoveries(o.of), 1)
	same(t, "audit", o.newest(1), []string{`webhook.resumed billing disabled_by:"failures">null disabled_reason:"2 consecutive deliveries are dead">null status:"disabled">"active"`})
	same(t, "further probes", len(o.step(o.db)), 0)
}

func TestAProbePassesOverRejectedDeliveries(t *testing.T) {
	o := newOutage(t)
	o.says = func(d *eventhook.Delivery) int {
		if d.ID == o.list[3].ID {
			return 200
		}
		return 422
	}
	o.clock.Advance(time.Minute)
	sent := o.step(o.db)
	slices.Reverse(sent)
	same(t, "sent, the newest first", sent, deliveryIDs(o.list...))
	same(t, "it", o.status(), eventhook.SubscriptionActive)
	for _, d := range o.list[:3] {
		got, _ := o.delivery(d.ID)
		same(t, "rejected", got.Status, eventhook.DeliveryDead)
	}
	same(t, "rejected deliveries that recovery would send", o.count("delivery", "status = 'dead' AND recoveries < 3"), 0)
}

func TestAProbeAnswered410IsTheLast(t *testing.T) {
	o := newOutage(t)
	o.says = answers(410)
	o.clock.Advance(time.Minute)
	same(t, "sent", len(o.step(o.db)), 1)
	same(t, "disabled by", o.storedSubscription(o.of.ID).DisabledBy, eventhook.DisabledByGone)
	o.clock.Advance(24 * time.Hour)
	same(t, "sent later", len(o.step(o.db)), 0)
}

func TestEnablingProbesAtOnce(t *testing.T) {
	o := newOutage(t)
	o.exec(`DELETE FROM eventhook.delivery WHERE due_at IS NOT NULL`) // nothing is held: only dead deliveries can be sent
	_, err := o.changeSubscription(operator, *o.of, 0, func(s *eventhook.Subscription) { s.Status = eventhook.SubscriptionActive })
	o.must(err)
	same(t, "sent", o.step(o.db), deliveryIDs(o.list[0]))
	same(t, "recoveries", o.recoveries(o.of), 1)
}

func TestOnlyOutagesByFailuresAreProbed(t *testing.T) {
	for claim, change := range map[string]func(*eventhook.Subscription){
		"disabled by a user":        func(s *eventhook.Subscription) { s.DisabledBy = eventhook.DisabledByUser },
		"paused":                    func(s *eventhook.Subscription) { s.Status = eventhook.SubscriptionPaused },
		"without recovery":          func(s *eventhook.Subscription) { s.Recovery.Enabled = new(false) },
		"with deliveries to agents": func(s *eventhook.Subscription) { s.TargetLabels = []string{"env:prod"} },
	} {
		t.Run(claim, func(t *testing.T) {
			o := newOutage(t)
			_, err := o.changeSubscription(operator, *o.of, 0, change)
			o.must(err)
			o.clock.Advance(24 * time.Hour)
			same(t, "probes", len(o.step(o.db)), 0)
		})
	}
}

// The instance that probes is killed. Another one probes once the lease has run out.
func TestAProbeOfAKilledInstanceIsRepeated(t *testing.T) {
	o := newOutage(t)
	o.clock.Advance(time.Minute)
	list, err := o.db.ClaimProbes(t.Context(), 10, nil, lease)
	o.must(err)
	missed, err := o.db.ClaimMissed(t.Context(), list[0], lease)
	o.must(err)
	same(t, "it is sending", []any{missed.ID, missed.WasDead}, []any{o.list[0].ID, true})
	same(t, "meanwhile", len(o.step(o.other)), 0)
	o.clock.Advance(lease + time.Second)
	same(t, "after the lease, the next delivery", o.step(o.other), deliveryIDs(o.list[1]))
	same(t, "it", o.status(), eventhook.SubscriptionActive)
	same(t, "the delivery of the killed instance is due again", len(o.claimDeliveries(o.db, 10, o.of)), 3)
}

var errNoDirectory = errors.New("the directory is down")

func TestAProbeThatCannotBeSentIsRepeatedLater(t *testing.T) {
	o := newOutage(t)
	o.clock.Advance(time.Minute)
	p := &outbound.Prober{Store: o.db, Directory: brokenDirectory{}, Observer: noObserver{}, Log: slog.New(slog.DiscardHandler), Now: o.clock.Now, Lease: lease}
	n, err := p.Step(t.Context())
	same(t, "probes", []any{n, err}, []any{1, error(nil)})
	same(t, "the outage", o.outage(o.of), "dead:2 since:00:01:00.002 opened:00:01:00.002 held probe:00:04:00")
}

type brokenDirectory struct{}

func (brokenDirectory) Destination(context.Context, eventhook.Destination) (outbound.Destination, error) {
	return outbound.Destination{}, errNoDirectory
}

// A second outage begins while the first one is recovered. The second one has missed nothing
// that can be sent, so only a delivery of the first one can end it.
func TestAProbeSendsWhatAnUnfinishedRecoveryHasNotSent(t *testing.T) {
	f := setUp(t)
	s := f.subscription()
	o := &outageFixture{f, &probed{f: f, says: answers(200)}, &s, nil}
	since := f.clock.Now()
	list := f.dead(2, &s)
	f.clock.Advance(time.Hour)
	id := f.recovery(&s, since)
	d := f.claimedDeliveries(1, &s)[0]
	f.settleDeliveries(f.db, f.settlement(d, eventhook.DeliveryDead, circuitOpen(f.clock.Now())))
	f.must(f.db.RejectMissed(t.Context(), d))
	f.deleteSystemDeliveries()
	f.clock.Advance(time.Minute)
	same(t, "sent", o.step(f.db), deliveryIDs(list[0]))
	f.replaySteps(f.replayWorker(f.db))
	f.wantReplay(id, "running", 1, 0, 0)
}

// An instance of an older version has enabled a subscription that failures had disabled. It does
// not know the outage, which must end all the same.
func TestAProbeEndsTheOutageOfASubscriptionThatIsActiveAgain(t *testing.T) {
	o := newOutage(t)
	o.exec(`UPDATE eventhook.subscription SET status = 'active', disabled_reason = NULL WHERE id = $1`, [16]byte(o.of.ID))
	o.clock.Advance(time.Minute)
	same(t, "sent", o.step(o.db), deliveryIDs(o.list[0]))
	same(t, "the outage", o.outage(o.of), "dead:0")
	same(t, "recoveries", o.recoveries(o.of), 1)
}
