package schedule_test

import (
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound/schedule"
)

// stage is the stage of a delivery in the model.
type stage string

const (
	stored    stage = "stored"    // due in the database at dueAt
	reserved  stage = "reserved"  // memory is reserved, and it is about to be offered
	offered   stage = "offered"   // in the scheduler, waiting or to be released
	sending   stage = "sending"   // Next returned it
	settling  stage = "settling"  // its outcome waits for the database
	releasing stage = "releasing" // TakeReleased returned it
	done      stage = "done"
)

// item is a delivery with its state in the model.
type item struct {
	*eventhook.Delivery
	to      *target
	stage   stage
	dueAt   time.Time // if stored
	leaseTo time.Time
	succeed bool // of the last attempt
}

// target is a destination: as it is configured, and as the scheduler knows it.
type target struct {
	schedule.Destination
	known   schedule.Destination
	sending int
	deleted bool
}

// model is a dispatcher, a database and receivers in one goroutine, which checks each
// step of the scheduler that it drives.
type model struct {
	*rapid.T
	s       *schedule.Scheduler
	config  schedule.Config
	now     time.Time
	tenants []eventhook.TenantID
	targets []*target
	items   []*item
	of      map[*eventhook.Delivery]*item
	jobs    []schedule.Job
	retries int // jobs that are retries
}

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func newModel(t *rapid.T) *model {
	m := &model{T: t, now: start, of: map[*eventhook.Delivery]*item{}, config: schedule.Config{
		Slots: rapid.IntRange(1, 16).Draw(t, "slots"), Deliveries: rapid.IntRange(8, 200).Draw(t, "deliveries"),
		Bytes: rapid.IntRange(200, 5000).Draw(t, "bytes"), Batch: rapid.IntRange(1, 20).Draw(t, "batch"),
		Unsettled: rapid.IntRange(1, 30).Draw(t, "unsettled"), Lease: 30 * time.Second,
	}}
	m.s = schedule.New(m.config, func() float64 { return rapid.Float64Range(0, 1).Draw(t, "chance") })
	for range rapid.IntRange(1, 3).Draw(t, "tenants") {
		m.tenants = append(m.tenants, eventhook.NewID[eventhook.Tenant](m.now))
	}
	for range rapid.IntRange(1, 6).Draw(t, "destinations") {
		m.add()
	}
	return m
}

func (m *model) add() {
	d := schedule.Destination{ID: eventhook.NewID[eventhook.Destination](m.now), TenantID: rapid.SampledFrom(m.tenants).Draw(m.T, "tenant"), Version: 1}
	m.targets = append(m.targets, &target{Destination: m.settings(d)})
}

// settings draws a configuration.
func (m *model) settings(d schedule.Destination) schedule.Destination {
	d.Address = eventhook.NewSecret(rapid.SampledFrom([]string{"https://a.example", "https://b.example"}).Draw(m.T, "address"))
	d.Ready = rapid.IntRange(0, 3).Draw(m.T, "ready") > 0
	d.Slots = rapid.IntRange(1, 12).Draw(m.T, "slots at once")
	d.PerSecond = rapid.SampledFrom([]int{0, 0, 1, 10}).Draw(m.T, "per second")
	d.Timeout = rapid.SampledFrom([]time.Duration{time.Second, 30 * time.Second}).Draw(m.T, "timeout")
	return d
}

func (m *model) someTarget() *target {
	return m.targets[rapid.IntRange(0, len(m.targets)-1).Draw(m.T, "destination")]
}

// create creates deliveries of new events.
func (m *model) create(to *target, n int, at stage) (list []*item) {
	list = m.createSized(to, n, rapid.IntRange(0, 100).Draw(m.T, "size"), at)
	for _, x := range list {
		x.IsReleased = rapid.IntRange(0, 3).Draw(m.T, "released") == 0
	}
	return list
}

func (m *model) createSized(to *target, n, size int, at stage) (list []*item) {
	for range n {
		e := &eventhook.Event{ID: eventhook.NewID[eventhook.Event](m.now), Payload: eventhook.Payload{Body: make([]byte, size)}}
		d := &eventhook.Delivery{ID: eventhook.DeliveryIDOf(e.ID, to.ID), TenantID: to.TenantID, DestinationID: to.ID, EventID: e.ID, Event: e}
		x := &item{Delivery: d, to: to, stage: at, dueAt: m.now}
		m.of[d] = x
		list = append(list, x)
	}
	m.items = append(m.items, list...)
	return list
}

func (m *model) at(p stage) (list []*item) {
	for _, x := range m.items {
		if x.stage == p {
			list = append(list, x)
		}
	}
	return list
}

// move changes the stage of an item. The test fails if the item is not in the stage from.
func (m *model) move(x *item, from, to stage) {
	if x.stage != from {
		m.Fatalf("a delivery is %s and goes from %s to %s", x.stage, from, to)
	}
	x.stage = to
}

func (m *model) itemOf(d *eventhook.Delivery) *item {
	x := m.of[d]
	if x == nil {
		m.Fatalf("a delivery is not known")
	}
	return x
}

// claim leases due deliveries of a destination, as a dispatcher does.
func (m *model) claim(to *target, fails bool) {
	n, isProbe := m.s.ReserveClaim(to.Destination, m.now)
	to.know()
	if n == 0 {
		return
	}
	if isProbe && n != 1 {
		m.Fatalf("%d probes at once", n)
	}
	var list []*eventhook.Delivery
	for _, x := range m.at(stored) {
		if x.to == to && !x.dueAt.After(m.now) && len(list) < n && !fails {
			m.move(x, stored, offered)
			x.leaseTo = m.now.Add(m.config.Lease + to.Timeout)
			list = append(list, x.Delivery)
		}
	}
	m.s.Offer(list, m.now)
	m.s.Claimed(to.ID, n, len(list), m.now)
}

// know records that the scheduler has the current configuration.
func (t *target) know() {
	if t.Version >= t.known.Version {
		t.known = t.Destination
	}
}

// sendAll starts all sends that may start now.
func (m *model) sendAll() {
	for j, ok := m.s.Next(m.now); ok; j, ok = m.s.Next(m.now) {
		m.started(j)
	}
}

// started checks a job against the limits.
func (m *model) started(j schedule.Job) {
	x := m.itemOf(j.Delivery)
	m.move(x, offered, sending)
	x.to.sending++
	ofTenant := 0
	for _, other := range m.jobs {
		if other.Destination.TenantID == x.TenantID {
			ofTenant++
		}
	}
	if unused := m.config.Slots - len(m.jobs); ofTenant >= unused {
		m.Fatalf("a tenant with %d sends got one of %d unused slots", ofTenant, unused)
	}
	m.jobs = append(m.jobs, j)
	if j.Delivery.RetryCount > 0 {
		m.retries++
	}
	if len(m.jobs) > m.config.Slots {
		m.Fatalf("%d sends at once, want %d at most", len(m.jobs), m.config.Slots)
	}
	if most := max(1, m.config.Slots/2); m.retries > most {
		m.Fatalf("%d retries at once, want %d at most", m.retries, most)
	}
	if status, ok := m.s.Status(x.to.ID); !ok || status.Sending != x.to.sending || x.to.sending > x.to.known.Slots || !x.to.known.Ready {
		m.Fatalf("%d sends at once to %+v, which is served as %+v", x.to.sending, x.to.known, status)
	}
	if status, _ := m.s.Status(x.to.ID); status.BackoffUntil.After(m.now) {
		m.Fatalf("a send %s before the backoff ends", status.BackoffUntil.Sub(m.now))
	}
}

// finish ends a job.
func (m *model) finish(i int, r schedule.Result) {
	j := m.jobs[i]
	m.jobs = slices.Delete(m.jobs, i, i+1)
	x := m.itemOf(j.Delivery)
	x.to.sending--
	if j.Delivery.RetryCount > 0 {
		m.retries--
	}
	if r.Settled {
		m.move(x, sending, settling)
	} else {
		m.move(x, sending, offered) // it is released
	}
	r.At, x.dueAt, x.succeed = m.now, r.RetryAt, r.RetryAt.IsZero()
	x.to.know()
	if next, ok := m.s.Finish(j, r); ok {
		m.started(next)
	}
}

// settle writes outcomes. If the lease was lost, the delivery belongs to another instance.
func (m *model) settle(n int, lost bool) {
	list := m.at(settling)
	list = list[:min(n, len(list))]
	var freed []*eventhook.Delivery
	for _, x := range list {
		freed = append(freed, x.Delivery)
		switch {
		case lost:
			m.move(x, settling, stored)
			x.dueAt = m.now
		case x.succeed:
			m.move(x, settling, done)
		default:
			m.move(x, settling, stored)
			again := *x.Delivery // a claim returns another copy
			again.RetryCount++
			delete(m.of, x.Delivery)
			x.Delivery = &again
			m.of[x.Delivery] = x
		}
	}
	if len(freed) > 0 {
		m.s.Freed(freed, true)
	}
}

// takeReleased takes the deliveries that must be released.
func (m *model) takeReleased(n int) {
	for _, d := range m.s.TakeReleased(n) {
		m.move(m.itemOf(d), offered, releasing)
	}
}

// release makes the taken deliveries due in the database.
func (m *model) release() {
	var freed []*eventhook.Delivery
	for _, x := range m.at(releasing) {
		m.move(x, releasing, stored)
		x.dueAt = m.now
		freed = append(freed, x.Delivery)
	}
	m.s.Freed(freed, false)
}

func (m *model) pace(fails bool) {
	list := m.s.RateRequests()
	var starts []time.Time
	for range list {
		starts = append(starts, m.now.Add(rapid.SampledFrom([]time.Duration{0, time.Second, time.Minute}).Draw(m.T, "start")))
	}
	if fails {
		starts = nil
	}
	m.s.GrantRates(list, starts, m.now)
}

// check compares the counts of the scheduler with the ones of the model.
func (m *model) check() {
	count, bytes := map[stage]int{}, 0
	for _, x := range m.items {
		count[x.stage]++
		if x.stage == offered || x.stage == sending || x.stage == settling || x.stage == releasing {
			bytes += len(x.Event.Body)
		}
	}
	held, heldBytes, toRelease := m.s.Held()
	stats := m.s.Stats()
	if stats.Waiting+toRelease != count[offered] {
		m.Fatalf("%d wait and %d are to be released, want %d in all", stats.Waiting, toRelease, count[offered])
	}
	if stats.Sending != count[sending] || stats.Unsettled != count[settling] {
		m.Fatalf("got %+v, want %v", stats, count)
	}
	if want := count[reserved] + count[offered] + count[sending] + count[settling] + count[releasing]; held != want || heldBytes != bytes {
		m.Fatalf("%d deliveries and %d bytes are held, want %d and %d", held, heldBytes, want, bytes)
	}
	if held > m.config.Deliveries {
		m.Fatalf("%d deliveries are held, want %d at most", held, m.config.Deliveries)
	}
	open := 0
	for _, to := range m.targets {
		if status, ok := m.s.Status(to.ID); ok && status.Circuit == schedule.Open {
			open++
		}
	}
	if open != stats.Open {
		m.Fatalf("%d open circuits are counted, want %d", stats.Open, open)
	}
}

// String returns the state of the model for failure messages.
func (m *model) String() string {
	count := map[string]int{}
	for _, x := range m.items {
		count[fmt.Sprintf("%s to %d", x.stage, slices.Index(m.targets, x.to))]++
	}
	return fmt.Sprint(count)
}
