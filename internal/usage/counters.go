package usage

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/eventhook/eventhook"
)

// day is a day of UTC, counted from 1970.
type day int64

func dayOf(t time.Time) day { return day(t.Unix() / int64(24*60*60)) }

func (d day) next() day        { return d + 1 }
func (d day) start() time.Time { return time.Unix(int64(d)*24*60*60, 0).UTC() }

// count is a number of events and their bytes.
type count struct{ events, bytes int64 }

func (c count) plus(o count) count { return count{c.events + o.events, c.bytes + o.bytes} }
func (c count) negated() count     { return count{-c.events, -c.bytes} }

// counter is a count that many add to.
type counter struct{ events, bytes atomic.Int64 }

func (c *counter) load() count { return count{c.events.Load(), c.bytes.Load()} }

func (c *counter) add(n count) count { return count{c.events.Add(n.events), c.bytes.Add(n.bytes)} }

// tenant is what this instance has counted for a tenant, and what it knows of
// all instances.
type tenant struct {
	id eventhook.TenantID
	// counted is by the parity of the day, since around midnight there are two.
	// It only grows, but for what is given back: what is new since a moment is
	// a difference, so that nothing is counted twice, or not at all, while it
	// is being written.
	counted [2]counter
	total   atomic.Pointer[total] // nil until a quota asks for it
	watched atomic.Bool           // a quota has asked: keep total fresh
	isDue   atomic.Bool

	// These two are the flushing one's.
	written [2]count
	before  before
}

func (t *tenant) mark() *atomic.Bool { return &t.isDue }

// total is what all instances had written down at a moment.
type total struct {
	readAt time.Time
	day    day
	events int64 // of that day
	bytes  int64 // of all days
	own    [2]count
}

// before is the bytes of the days before one. They change only when bodies are
// dropped or somebody is late, so they are read now and then.
type before struct {
	day    day
	bytes  int64
	readAt time.Time
}

// used is what all instances are known to have stored when this one has counted
// own for a day, the present one: the events of the day and the bytes of all.
func (t *tenant) used(d day, own count) count {
	known := t.total.Load()
	today, other := known.own[d&1].negated().plus(own), known.own[(d+1)&1].negated().plus(t.counted[(d+1)&1].load())
	used := count{today.events, known.bytes + today.bytes + other.bytes}
	if known.day == d {
		used.events += known.events
	}
	return used
}

// due are things with something to write down, each once: those whose mark is
// set. What is not in it is held by its accounts alone.
type due[T interface{ mark() *atomic.Bool }] struct {
	mu   sync.Mutex
	list []T
}

// add puts v into d unless it is there. It locks once between two flushes.
func (d *due[T]) add(v T) {
	if v.mark().Load() || v.mark().Swap(true) {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.list = append(d.list, v)
}

// take empties d. Read the counts only then: who counts from now on is heard
// of again.
func (d *due[T]) take() []T {
	d.mu.Lock()
	defer d.mu.Unlock()
	list := d.list
	d.list = nil
	for _, v := range list {
		v.mark().Store(false)
	}
	return list
}
