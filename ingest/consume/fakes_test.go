package consume

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/consumers"
	"github.com/eventhook/eventhook/ingest"
	"github.com/eventhook/eventhook/internal/backoff"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errDown = errors.New("the database is down")

// leases is a table of leases that several instances share.
type leases struct {
	mu        sync.Mutex
	rows      map[eventhook.SourceID]*row
	instances map[string]int // capacities
	seen      map[string]time.Time
	err       error
	changed   chan struct{}
}

type row struct {
	Lease
	holder    string
	until     time.Time
	isEnabled bool
	state     eventhook.ConsumerState
}

func newLeases(slugs ...string) *leases {
	s := &leases{rows: map[eventhook.SourceID]*row{}, instances: map[string]int{}, seen: map[string]time.Time{}, changed: make(chan struct{})}
	for _, slug := range slugs {
		id := eventhook.NewID[eventhook.Source](time.Now())
		s.rows[id] = &row{Lease: Lease{Source: id, TenantSlug: "acme", Slug: slug, Version: 1}, isEnabled: true}
	}
	return s
}

// of returns the row of a source, for a change under the lock.
func (s *leases) change(slug string, do func(*row)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.rows {
		if r.Slug == slug {
			do(r)
		}
	}
}

func (s *leases) state(slug string) (state eventhook.ConsumerState) {
	s.change(slug, func(r *row) { state = r.state })
	return state
}

func (s *leases) holder(slug string) (name string) {
	s.change(slug, func(r *row) {
		if r.until.After(time.Now()) {
			name = r.holder
		}
	})
	return name
}

func (s *leases) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

// store is the Store of one instance.
type store struct {
	*leases
	name string
}

func (s store) RenewConsumers(_ context.Context, reports []Report, lease time.Duration) (kept []Lease, _ error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range reports {
		if r := s.rows[p.Source]; r.holder == s.name && r.Token == p.Token && r.isEnabled {
			r.until, r.state = time.Now().Add(lease), p.State
			kept = append(kept, r.Lease)
		}
	}
	return kept, s.err
}

func (s store) ConsumerDemand(_ context.Context, capacity int) (sources int, capacities []int, _ error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.instances[s.name], s.seen[s.name] = capacity, time.Now()
	for name, n := range s.instances {
		if time.Since(s.seen[name]) < 10*time.Second {
			capacities = append(capacities, n)
		}
	}
	for _, r := range s.rows {
		if r.isEnabled {
			sources++
		}
	}
	return sources, capacities, s.err
}

func (s store) ClaimConsumers(_ context.Context, max int, lease, overdue time.Duration) (list []Lease, _ error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, s.err
	}
	rows := slices.SortedFunc(maps.Values(s.rows), func(a, b *row) int { return a.until.Compare(b.until) })
	for _, r := range rows {
		if len(list) < max && r.isEnabled && time.Since(r.until) >= overdue && !r.until.After(time.Now()) {
			r.holder, r.until = s.name, time.Now().Add(lease)
			r.Token++
			list = append(list, r.Lease)
		}
	}
	return list, nil
}

func (s store) ReleaseConsumers(_ context.Context, list []Lease) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range list {
		if r := s.rows[l.Source]; r.Token == l.Token && r.holder == s.name {
			r.holder, r.until = "", time.Now()
		}
	}
	close(s.changed)
	s.changed = make(chan struct{})
	return s.err
}

func (s store) ConsumersChanged() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// queue is a broker with one queue for each source, and the events of its messages.
type queue struct {
	mu        sync.Mutex
	messages  map[string][]*consumers.Message // that are not settled, by source
	taken     map[string]int                  // of them, by the open consumer
	open      map[string]int                  // consumers by source
	opened    int
	events    map[string]int // by position: how often it was taken
	openErr   error
	broken    string // the source whose consumer cannot be opened
	receive   error
	settleErr error
	wait      chan struct{} // unless nil, Take waits for it
	await     chan struct{} // unless nil, Await waits for it
	awaited   []int         // bytes for which Await was called while await was set
	every     time.Duration // unless 0, Take waits so long, and takes one message
	slow      chan struct{} // unless nil, Close waits for it
	changed   chan struct{}
}

func newQueue() *queue {
	return &queue{messages: map[string][]*consumers.Message{}, taken: map[string]int{}, open: map[string]int{}, events: map[string]int{}, changed: make(chan struct{})}
}

func (q *queue) set(do func(*queue)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	do(q)
	close(q.changed)
	q.changed = make(chan struct{})
}

func (q *queue) publish(source string, from, to int) {
	q.set(func(q *queue) {
		for n := from; n <= to; n++ {
			q.messages[source] = append(q.messages[source], &consumers.Message{Position: fmt.Sprint(source, "/", n)})
		}
	})
}

// rest returns the messages that are not settled.
func (q *queue) rest() (n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, list := range q.messages {
		n += len(list)
	}
	return n
}

// consumers returns the number of open consumers of a source.
func (q *queue) consumers(source string) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.open[source]
}

// attempts returns how often a consumer was opened, or was to be.
func (q *queue) attempts() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.opened
}

// stored returns how often the event of a message was stored.
func (q *queue) stored(position string) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.events[position]
}

// consumed fails the test unless each of the messages up to n became one event, and is settled.
func (q *queue) consumed(t *testing.T, source string, n int) {
	t.Helper()
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := 1; i <= n; i++ {
		if q.events[fmt.Sprint(source, "/", i)] == 0 {
			t.Errorf("message %d of %s is lost", i, source)
		}
	}
	if left := len(q.messages[source]); left > 0 {
		t.Errorf("%d messages of %s are not settled", left, source)
	}
}

func (q *queue) Open(_ context.Context, p consumers.Place) (consumers.Consumer, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.opened++
	if q.openErr != nil {
		return nil, q.openErr
	}
	source := p.Settings.(*consumers.Kafka).Topic
	if source == q.broken {
		return nil, errors.New("the connection was refused")
	}
	q.open[source]++
	q.taken[source] = 0
	return &reader{q, source}, nil
}

// Take is ingest.Handler.TakeMessages.
func (q *queue) Take(ctx context.Context, in ingest.Messages) (int, error) {
	q.mu.Lock()
	gate, every := q.wait, q.every
	q.mu.Unlock()
	if every > 0 {
		in.List = in.List[:1]
		in.Waits("the rate limit is reached", 0)
		if !backoff.Sleep(ctx, every) {
			return 0, ctx.Err()
		}
	}
	if gate != nil {
		in.Waits("the quota is reached", neededBytes)
		select {
		case <-gate:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, m := range in.List {
		q.events[m.Position]++
	}
	return len(in.List), nil
}

// neededBytes are the bytes that a message of a queue needs of the quota.
const neededBytes = 700

// Await is ingest.Handler.AwaitMessages.
func (q *queue) Await(ctx context.Context, in ingest.Messages, bytes int) error {
	q.mu.Lock()
	gate := q.await
	if gate != nil {
		q.awaited = append(q.awaited, bytes)
	}
	q.mu.Unlock()
	if gate == nil {
		return nil
	}
	in.Waits("the quota is reached", bytes)
	select {
	case <-gate:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

type reader struct {
	*queue
	source string
}

func (r *reader) Receive(ctx context.Context, max int) ([]*consumers.Message, error) {
	for {
		r.mu.Lock()
		list := r.messages[r.source][r.taken[r.source]:]
		list = slices.Clone(list[:min(len(list), max)])
		r.taken[r.source] += len(list)
		changed, err := r.changed, r.receive
		r.mu.Unlock()
		if err != nil || len(list) > 0 {
			return list, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (r *reader) Settle(_ context.Context, done []*consumers.Message) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.settleErr != nil {
		return r.settleErr
	}
	r.messages[r.source] = r.messages[r.source][len(done):]
	r.taken[r.source] -= len(done)
	return nil
}

// Lag returns how many messages of the source are not settled.
func (r *reader) Lag(context.Context) (int64, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return int64(len(r.messages[r.source])), true
}

func (r *reader) Close() {
	r.mu.Lock()
	gate := r.slow
	r.mu.Unlock()
	if gate != nil {
		<-gate
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open[r.source]--
}

// sources finds a source with the topic of its slug.
type sources struct{ *queue }

func (sources) FindSource(_ context.Context, tenant, slug string) (eventhook.Source, error) {
	t, faults := consumers.Parse(fmt.Appendf(nil, `{"type":"kafka","brokers":"k.example:9092","topic":%q,"group":"g"}`, slug), nil)
	return eventhook.Source{TenantSlug: tenant, Slug: slug, Consume: &t}, faults.Err("settings")
}

// instance is a running Runner.
type instance struct {
	*Runner
	stop func()
}

func start(s *leases, q *queue, name string, capacity int) *instance {
	return startWith(s, q, name, capacity, func(*Deps) {})
}

// startWith starts an instance with changed dependencies.
func startWith(s *leases, q *queue, name string, capacity int, change func(*Deps)) *instance {
	deps := Deps{Store: store{s, name}, Sources: sources{q}, Open: q.Open, Take: q.Take, Await: q.Await, Ready: func() error { return nil },
		Lease: 30 * time.Second, Bytes: 1 << 30, Log: slog.New(slog.DiscardHandler), Now: time.Now}
	change(&deps)
	r := New(Config{Sources: capacity}, deps)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = r.Run(ctx)
	}()
	return &instance{r, func() { cancel(); <-ended }}
}
