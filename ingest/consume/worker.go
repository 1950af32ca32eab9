package consume

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/consumers"
	"github.com/eventhook/eventhook/ingest"
	"github.com/eventhook/eventhook/internal/backoff"
	"github.com/eventhook/eventhook/internal/panics"
)

const (
	openTimeout   = 30 * time.Second
	settleTimeout = 10 * time.Second
	lagInterval   = 3 * time.Second
	// holdTime is how long messages wait in this instance until it gives them back to their broker. It is shorter than the
	// time after which brokers take messages for lost.
	holdTime = 20 * time.Second
	// heldSeconds bounds the messages that are received at once: as many as the rate limit allows in this time.
	heldSeconds = 10
	maxMessages = 256
	minBytes    = 4 << 20 // of messages that a consumer holds
	firstPause  = time.Second
	maxPause    = time.Minute
	stuckAfter  = time.Minute
)

var (
	errHeld   = errors.New("the messages waited for long; they were given back to the broker")
	errNoRead = errors.New("the gateway cannot read the source now")
	errMemory = errors.New("the memory of the instance for messages of sources is used up; a smaller max_body_bytes needs less")
)

// worker consumes the messages of one source.
type worker struct {
	Deps
	memory    *memory
	lease     Lease
	startedAt time.Time
	ctx       context.Context //nolint:containedctx // of run
	cancel    context.CancelFunc
	ended     chan struct{}
	// needed are the bytes that the next message needs of the quota, if it waits for it. Used by run only.
	needed int

	// Used by Runner.Run only.
	held       Lease // as it was last renewed; its version may be newer than that of lease
	isHeld     bool  // this instance has the lease
	isReleased bool  // the lease ends when the worker has ended

	mu       sync.Mutex
	state    eventhook.ConsumerState
	usefulAt time.Time // when messages were stored, or a connection ended that lasted for stuckAfter
}

func newWorker(d Deps, m *memory, l Lease) *worker {
	w := &worker{Deps: d, memory: m, lease: l, held: l, isHeld: true, startedAt: d.Now(), usefulAt: d.Now(), ended: make(chan struct{})}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	w.state = eventhook.ConsumerState{Status: eventhook.ConsumerWaiting, Error: Connecting, Since: w.startedAt}
	return w
}

// current returns the state of the consumer.
func (w *worker) current() eventhook.ConsumerState {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.state
}

func (w *worker) set(status eventhook.ConsumerStatus, reason string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if status != w.state.Status {
		w.state.Since = w.Now()
	}
	isNew := status != w.state.Status || reason != w.state.Error
	w.state.Status, w.state.Error = status, reason
	if isNew && status == eventhook.ConsumerFailed {
		w.Log.Warn("the messages of a source cannot be consumed; trying again", "tenant", w.lease.TenantSlug, "source", w.lease.Slug, "error", reason)
	}
}

// followLag updates the lag of the state every lagInterval until the caller calls stop.
func (w *worker) followLag(c consumers.Consumer) (stop func()) {
	ctx, cancel := context.WithCancel(w.ctx)
	var running sync.WaitGroup
	running.Go(func() {
		defer func() {
			if reason := recover(); reason != nil {
				w.Log.Error("the lag of a consumer is not known", "tenant", w.lease.TenantSlug, "source", w.lease.Slug,
					"error", panics.Recovered(panics.Loop, reason))
			}
		}()
		for w.updateLag(ctx, c); backoff.Sleep(ctx, lagInterval); {
			w.updateLag(ctx, c)
		}
	})
	return func() {
		cancel()
		running.Wait()
		w.mu.Lock()
		defer w.mu.Unlock()
		w.state.Lag = nil // without a connection it would become old
	}
}

// updateLag keeps the last lag that the broker has told.
func (w *worker) updateLag(ctx context.Context, c consumers.Consumer) {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	if messages, isKnown := c.Lag(ctx); isKnown {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.state.Lag = &messages
	}
}

// isStuck says that the consumer has had no use of its lease for stuckAfter, because of its broker or of the memory.
func (w *worker) isStuck() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	isIdle := w.state.Status == eventhook.ConsumerFailed || w.state.Error == errMemory.Error()
	return isIdle && w.Now().Sub(w.usefulAt) >= stuckAfter
}

func (w *worker) setUseful() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.usefulAt = w.Now()
}

// run consumes messages until the worker is cancelled. After an error it connects to the broker again.
func (w *worker) run() {
	defer close(w.ended)
	pause := firstPause
	for w.ctx.Err() == nil {
		began := w.Now()
		hasSettled, err := w.guarded()
		if w.ctx.Err() != nil {
			return
		}
		if hasSettled {
			pause = firstPause
		}
		if hasSettled || w.Now().Sub(began) >= stuckAfter {
			w.setUseful()
		}
		switch {
		case errors.Is(err, errHeld): // its state says why
		case errors.Is(err, errNoRead), errors.Is(err, errMemory):
			w.set(eventhook.ConsumerWaiting, err.Error())
		default:
			w.set(eventhook.ConsumerFailed, err.Error())
		}
		backoff.Sleep(w.ctx, pause)
		pause = min(2*pause, maxPause) //nolint:mnd // doubles
	}
}

// guarded is consume. A panic is an error, so that a message that a client cannot decode does not end the instance.
func (w *worker) guarded() (hasSettled bool, err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = panics.Recovered(panics.Loop, reason)
			w.Log.Error("a consumer panicked", "tenant", w.lease.TenantSlug, "source", w.lease.Slug, "error", err)
			err = errors.New("the gateway failed; see its log")
		}
	}()
	return w.consume()
}

// consume connects to the broker and consumes messages until an error. hasSettled says that messages were settled.
func (w *worker) consume() (hasSettled bool, err error) {
	source, err := w.Sources.FindSource(w.ctx, w.lease.TenantSlug, w.lease.Slug)
	if err != nil || source.Consume == nil {
		return false, errNoRead
	}
	settings, err := consumers.Open(*source.Consume)
	if err != nil {
		return false, err
	}
	if err := w.await(w.ctx); err != nil {
		return false, err
	}
	reserved := reservedBytes(source, settings)
	if !w.memory.reserve(source.TenantID, reserved) {
		return false, errMemory
	}
	defer w.memory.release(source.TenantID, reserved)
	opening, cancel := context.WithTimeout(w.ctx, openTimeout)
	defer cancel()
	c, err := w.Open(opening, consumers.Place{Tenant: source.TenantID, Source: source.ID, Settings: settings,
		Limits: consumers.Limits{Bytes: bytesOf(source)}})
	if err != nil {
		return false, err
	}
	defer c.Close()
	defer w.followLag(c)()
	for {
		if err := w.awaitBriefly(); err != nil {
			return hasSettled, err
		}
		list, err := c.Receive(w.ctx, messagesOf(source))
		if err != nil {
			return hasSettled, err
		}
		settled, err := w.store(c, list)
		hasSettled = hasSettled || settled > 0
		if err != nil {
			return hasSettled, err
		}
	}
}

// bytesOf returns the bytes of messages that a consumer holds: messages of up to half of it can be read, so that one
// that is larger than the source allows becomes a rejection.
func bytesOf(s eventhook.Source) int {
	const largest = 4
	return max(minBytes, largest*s.BodyLimit())
}

// reservedBytes returns the bytes that a consumer needs at most.
func reservedBytes(s eventhook.Source, settings consumers.Settings) int64 {
	bytes := int64(bytesOf(s))
	if _, isSQS := settings.(*consumers.SQS); isSQS {
		bytes *= 2 // an answer of SQS is JSON, with escaped characters
	}
	return bytes
}

func messagesOf(s eventhook.Source) int {
	l := s.RateLimit.WithDefaults()
	const seconds = 60
	return max(1, min(maxMessages, heldSeconds*l.RequestsPerSecond, heldSeconds*l.RequestsPerMinute/seconds))
}

// store stores the events of messages and settles the messages, part by part as the limits allow, within holdTime. It
// returns how many messages were settled.
func (w *worker) store(c consumers.Consumer, list []*consumers.Message) (settled int, err error) {
	ctx, cancel := context.WithTimeout(w.ctx, holdTime)
	defer cancel()
	for settled < len(list) {
		done, err := w.take(ctx, list[settled:])
		if done > 0 {
			w.needed = 0
			if err := w.settle(c, list[settled:settled+done]); err != nil {
				return settled, err
			}
		}
		settled += done
		if err != nil {
			return settled, err
		}
		w.set(eventhook.ConsumerRunning, "")
	}
	return settled, nil
}

// await waits until the limits, the quota and the database allow the next message. A message that was given back is not
// received before that, since some brokers drop messages that come back often.
func (w *worker) await(ctx context.Context) error {
	return w.Await(ctx, w.messages(nil), w.needed)
}

// awaitBriefly is await before a message is received. The connection, whose client may have received messages already,
// ends after holdTime.
func (w *worker) awaitBriefly() error {
	ctx, cancel := context.WithTimeout(w.ctx, holdTime)
	defer cancel()
	if err := w.await(ctx); err != nil {
		return w.heldError(err)
	}
	w.set(eventhook.ConsumerRunning, "")
	return nil
}

func (w *worker) messages(list []*consumers.Message) ingest.Messages {
	return ingest.Messages{Tenant: w.lease.TenantSlug, Source: w.lease.Slug, List: list,
		Waits: func(reason string, bytes int) {
			if bytes > 0 {
				w.needed = bytes
			}
			w.set(eventhook.ConsumerWaiting, reason)
		}}
}

func (w *worker) take(ctx context.Context, list []*consumers.Message) (done int, err error) {
	done, err = w.Take(ctx, w.messages(list))
	return done, w.heldError(err)
}

// heldError returns errHeld for the end of holdTime, and other errors as they are.
func (w *worker) heldError(err error) error {
	if errors.Is(err, context.DeadlineExceeded) && w.ctx.Err() == nil {
		return errHeld
	}
	return err
}

// settle settles messages, also if the worker is cancelled meanwhile.
func (w *worker) settle(c consumers.Consumer, done []*consumers.Message) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.ctx), settleTimeout)
	defer cancel()
	return c.Settle(ctx, done)
}
