package egress

import (
	"container/list"
	"slices"
	"sync"
	"time"
)

// The idle connections that are kept: to one host as many as it gets requests at
// once, and so many in all. The one that was idle for longest makes room, so
// however many hosts there are, each costs nothing once it is left alone.
const (
	idleSends        = 1024
	idleSendsPerHost = 256
)

// pool keeps idle connections, for idleTimeout. It starts no goroutine. Safe for
// concurrent use.
type pool struct {
	mu     sync.Mutex
	idle   map[string][]*conn // by whom they lead to, the last was used last
	oldest list.List          // of all
}

func newPool() pool { return pool{idle: map[string][]*conn{}} }

// keeping is a connection's, while it is kept.
type keeping struct {
	place *list.Element // nil: it is not
	end   *time.Timer
}

// take returns the connection to somebody that was used last, which is the least
// likely to be closed, and nil if there is none.
func (p *pool) take(to string) *conn {
	for {
		c := p.last(to)
		if c == nil || isQuiet(c.wire) {
			return c
		}
		_ = c.wire.Close()
	}
}

func (p *pool) last(to string) *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.idle[to]
	if len(all) == 0 {
		return nil
	}
	c := all[len(all)-1]
	p.removeLocked(c)
	return c
}

// keep has a connection that is idle now.
func (p *pool) keep(c *conn) {
	if most := p.add(c); most != nil {
		_ = most.Close()
	}
}

// add returns what there is no room for.
func (p *pool) add(c *conn) (surplus *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.idle[c.to]
	if len(all) >= idleSendsPerHost {
		return c
	}
	if p.oldest.Len() >= idleSends {
		surplus = p.oldest.Front().Value.(*conn) //nolint:forcetypeassert // the list holds nothing else
		p.removeLocked(surplus)
	}
	p.idle[c.to] = append(p.idle[c.to], c)
	c.kept.place = p.oldest.PushBack(c)
	if c.kept.end == nil {
		c.kept.end = time.AfterFunc(idleTimeout, func() { p.expire(c) })
	} else {
		c.kept.end.Reset(idleTimeout)
	}
	return surplus
}

func (p *pool) expire(c *conn) {
	p.mu.Lock()
	isIdle := c.kept.place != nil
	if isIdle {
		p.removeLocked(c)
	}
	p.mu.Unlock()
	if isIdle {
		_ = c.Close() // of TLS: it says so
	}
}

func (p *pool) removeLocked(c *conn) {
	c.kept.end.Stop()
	p.oldest.Remove(c.kept.place)
	c.kept.place = nil
	all := p.idle[c.to]
	at := slices.Index(all, c)
	if all = slices.Delete(all, at, at+1); len(all) > 0 {
		p.idle[c.to] = all
	} else {
		delete(p.idle, c.to)
	}
}
