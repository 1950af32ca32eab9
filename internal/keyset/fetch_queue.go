package keyset

import (
	"slices"

	"github.com/eventhook/eventhook"
)

// The shares of the fetches that run at a time, and of those that run or wait.
// A tenant whose requests name many documents, or slow ones, waits for its own
// fetches; the others have the rest.
const (
	maxFetches = 32
	perTenant  = 4
	perSource  = 2
	perHost    = 8

	maxWaiting       = 1024
	waitingPerTenant = 32
	waitingPerSource = 16
)

// owner is the source whose request asks for a document. The zero owner is the
// operator, who has no share: only the host's and the total bound count.
type owner struct {
	tenant eventhook.TenantID
	source eventhook.SourceID
}

func (o owner) isOperator() bool { return o == owner{} }

// place is a fetch that waits or runs. Several owners may want the same
// document: the first that has room in its share pays for it.
type place struct {
	host   string
	owners []owner
	payer  owner
	turn   chan struct{} // closed when the fetch may run
}

// shares decides which fetch is next. Its user guards it.
type shares struct {
	waiting []*place // in the order of arrival
	running []*place
	served  map[eventhook.TenantID]int // when a tenant's last fetch began, as a number that grows
	begun   int
}

// hasRoom reports whether a fetch of o may wait.
func (s *shares) hasRoom(o owner) bool {
	all := len(s.waiting) + len(s.running)
	if o.isOperator() {
		return all < maxWaiting
	}
	ofTenant, ofSource := 0, 0
	for _, list := range [][]*place{s.waiting, s.running} {
		for _, p := range list {
			if first := p.owners[0]; first.tenant == o.tenant {
				ofTenant++
				if first.source == o.source {
					ofSource++
				}
			}
		}
	}
	return all < maxWaiting && ofTenant < waitingPerTenant && ofSource < waitingPerSource
}

// add queues a fetch, and starts those that may run.
func (s *shares) add(host string, o owner) *place {
	p := &place{host: host, owners: []owner{o}, turn: make(chan struct{})}
	s.waiting = append(s.waiting, p)
	s.start()
	return p
}

// join makes o one of the owners of a fetch that still waits, so that it does
// not wait for another owner's share.
func (s *shares) join(p *place, o owner) {
	if slices.Contains(s.waiting, p) && !slices.Contains(p.owners, o) {
		p.owners = append(p.owners, o)
		s.start()
	}
}

// leave removes a fetch that has ended, or whose turn did not come.
func (s *shares) leave(p *place) {
	isIt := func(other *place) bool { return other == p }
	s.waiting = slices.DeleteFunc(s.waiting, isIt)
	s.running = slices.DeleteFunc(s.running, isIt)
	s.start()
	s.forget()
}

// start lets fetches run while there is room: first those of the tenant whose
// last fetch began longest ago, and of one tenant in the order of arrival.
func (s *shares) start() {
	for len(s.running) < maxFetches {
		var next *place
		var payer owner
		for _, p := range s.waiting {
			for _, o := range p.owners {
				if s.fits(p, o) && (next == nil || s.served[o.tenant] < s.served[payer.tenant]) {
					next, payer = p, o
				}
			}
		}
		if next == nil {
			return
		}
		next.payer = payer
		s.waiting = slices.DeleteFunc(s.waiting, func(p *place) bool { return p == next })
		s.running = append(s.running, next)
		s.begun++
		if s.served == nil {
			s.served = map[eventhook.TenantID]int{}
		}
		s.served[payer.tenant] = s.begun
		close(next.turn)
	}
}

// fits reports whether a fetch may run in the share of o.
func (s *shares) fits(p *place, o owner) bool {
	ofTenant, ofSource, ofHost := 0, 0, 0
	for _, r := range s.running {
		if r.host == p.host {
			ofHost++
		}
		if r.payer.tenant == o.tenant {
			ofTenant++
			if r.payer.source == o.source {
				ofSource++
			}
		}
	}
	return ofHost < perHost && (o.isOperator() || ofTenant < perTenant && ofSource < perSource)
}

// forget drops the turns of tenants when nothing waits or runs.
func (s *shares) forget() {
	if len(s.waiting)+len(s.running) == 0 {
		s.served, s.begun = nil, 0
	}
}
