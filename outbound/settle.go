package outbound

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/eventhook/eventhook"
)

// settlers write outcomes down. One alone makes the largest batches; the other
// begins beside it when enough waits for a good one, or the first takes long.
const settlers = 2

// Pauses before what the database refused is tried again.
const (
	firstPause = 50 * time.Millisecond
	mostPause  = 2 * time.Second
)

// lastWrites is how long outcomes may take to be written, and deliveries to be
// given back, when all else has ended.
const lastWrites = 5 * time.Second

// slowSettle is when a settle no longer makes others wait.
const slowSettle = 25 * time.Millisecond

// outbox has the outcomes that are to be written. Those that come while some
// are being written go together. Safe for concurrent use.
type outbox struct {
	mu       sync.Mutex
	waiting  []*DeliverySettlement
	batch    int
	settling int
	isSlow   bool // the last settle to begin takes long
	ready    chan struct{}
}

func newOutbox(batch int) *outbox { return &outbox{batch: batch, ready: make(chan struct{}, settlers)} }

func (b *outbox) add(s *DeliverySettlement) {
	b.mu.Lock()
	b.waiting = append(b.waiting, s)
	due := b.dueLocked()
	b.mu.Unlock()
	if due {
		b.signal()
	}
}

func (b *outbox) signal() {
	select {
	case b.ready <- struct{}{}:
	default:
	}
}

func (b *outbox) dueLocked() bool {
	return len(b.waiting) > 0 && (b.settling == 0 || b.isSlow || len(b.waiting) >= b.batch)
}

// take removes the oldest outcomes, nil if none are due to be written. Say
// written afterwards.
func (b *outbox) take() []*DeliverySettlement {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.dueLocked() {
		return nil
	}
	b.settling++
	b.isSlow = false
	n := min(b.batch, len(b.waiting))
	batch := slices.Clone(b.waiting[:n])
	clear(b.waiting[:n])
	if b.waiting = b.waiting[n:]; len(b.waiting) == 0 {
		b.waiting = nil
	}
	return batch
}

func (b *outbox) slow() {
	b.mu.Lock()
	b.isSlow = true
	b.mu.Unlock()
	b.signal()
}

// written notes that a batch is; who has written it takes the next.
func (b *outbox) written() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.settling--
}

// settleLoop writes outcomes down until there are no more and none will come.
// What was answered is written even when working has ended.
func (d *Dispatcher) settleLoop(working context.Context, ended <-chan struct{}) {
	ctx, cancel := outlasting(working, lastWrites)
	defer cancel()
	for {
		if batch := d.outbox.take(); batch != nil {
			d.settle(ctx, batch)
			d.outbox.written()
			continue
		}
		if ended == nil {
			return
		}
		select {
		case <-ended:
			ended = nil
		case <-d.outbox.ready:
		}
	}
}

// settle writes a batch down, once the database lets it, as long as a lease
// holds. What is not written is delivered again.
func (d *Dispatcher) settle(ctx context.Context, batch []*DeliverySettlement) {
	began := d.Now()
	slow := time.AfterFunc(slowSettle, d.outbox.slow)
	defer slow.Stop()
	list := make([]*eventhook.Delivery, len(batch))
	for i, s := range batch {
		list[i] = s.Delivery
	}
	defer d.traffic.freed(list, len(list))
	var lost []*DeliverySettlement
	if !d.insist(ctx, "settle deliveries", list, func() (err error) {
		lost, err = d.Queue.SettleDeliveries(ctx, batch)
		return err
	}) {
		d.Log.Warn("outcomes could not be written in time; these deliveries are made again", "deliveries", len(batch))
		return
	}
	if len(lost) > 0 {
		d.Log.Warn("the leases of deliveries ran out before they were settled; they are made again", "deliveries", len(lost), "one_of_them", lost[0].Delivery.ID)
		batch = slices.DeleteFunc(batch, func(s *DeliverySettlement) bool { return slices.Contains(lost, s) })
	}
	d.Observer.SettledDeliveries(batch, len(lost), d.Now().Sub(began))
}

// insist tries until it is done, ctx has ended, or no lease of the deliveries
// holds any more; then it reports false.
func (d *Dispatcher) insist(ctx context.Context, what string, list []*eventhook.Delivery, try func() error) bool {
	err := try()
	for wait := firstPause; err != nil; wait = min(2*wait, mostPause) {
		if ctx.Err() != nil || !d.isLeased(list) {
			return false
		}
		d.Log.Warn("cannot "+what+"; trying again", "deliveries", len(list), "error", err)
		if !sleep(ctx, wait) {
			return false
		}
		err = try()
	}
	return true
}

// isLeased reports whether the lease of any of them still holds.
func (d *Dispatcher) isLeased(list []*eventhook.Delivery) bool {
	now := d.Now()
	return slices.ContainsFunc(list, func(x *eventhook.Delivery) bool { return !now.After(x.Lease.Until) })
}

// sleep waits, and reports false if ctx ended meanwhile.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// outlasting ends some time after ctx has ended.
func outlasting(ctx context.Context, by time.Duration) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		if sleep(longer, by) {
			cancel()
		}
	})
	return longer, func() { stop(); cancel() }
}
