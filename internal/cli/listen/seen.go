package listen

import "time"

// maxSeen is the number of webhooks that a feed remembers.
const maxSeen = 100_000

// seen remembers the last webhooks of a feed. Webhooks that arrived before a forgotten one count
// as seen.
type seen struct {
	max   int
	ids   map[string]bool
	order []seenID // a ring, once it has max entries
	next  int      // the oldest entry of the ring
	floor time.Time
}

type seenID struct {
	id string
	at time.Time
}

func newSeen(limit int) seen { return seen{max: limit, ids: map[string]bool{}} }

// add remembers a webhook. It returns false if the webhook was seen before.
func (s *seen) add(id string, at time.Time) bool {
	if s.ids[id] || !at.After(s.floor) {
		return false
	}
	s.ids[id] = true
	if len(s.order) < s.max {
		s.order = append(s.order, seenID{id, at})
		return true
	}
	oldest := &s.order[s.next]
	delete(s.ids, oldest.id)
	if oldest.at.After(s.floor) {
		s.floor = oldest.at
	}
	*oldest = seenID{id, at}
	s.next = (s.next + 1) % s.max
	return true
}
