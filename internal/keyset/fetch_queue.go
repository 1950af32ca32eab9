package keyset

import (
	"slices"

	"github.com/eventhook/eventhook"
)

// Limits of the running fetches, and of all fetches. A tenant whose requests name
// many or slow documents waits for its own fetches; other tenants use the rest of
// the capacity.
const (
	maxRunning       = 32
	runningPerTenant = 4
	runningPerSource = 2
	runningPerHost   = 8
	maxFetches       = 1024 // running and waiting
	fetchesPerTenant = 32
	fetchesPerSource = 16
)

// owner is the source whose request needs a document. The zero owner is the
// operator: only runningPerHost, maxRunning and maxFetches apply to it.
type owner struct {
	tenant eventhook.TenantID
	source eventhook.SourceID
}

func (o owner) isOperator() bool { return o == owner{} }

// queuedFetch is a waiting or running fetch. Several owners can need the same
// document. The fetch counts towards the running fetches of payer: the first
// owner that has capacity.
type queuedFetch struct {
	host    string
	owners  []owner
	payer   owner
	started chan struct{} // closed when the fetch may run
}

// fetchQueue decides which fetch runs next: round robin between tenants, and first
// come, first served within a tenant. It is not safe for concurrent use.
type fetchQueue struct {
	waiting   []*queuedFetch // in the order of arrival
	running   []*queuedFetch
	lastStart map[eventhook.TenantID]int // the number of the tenant's last started fetch
	starts    int                        // the number of the last started fetch
}

// hasCapacity reports whether a fetch of o can be added.
func (q *fetchQueue) hasCapacity(o owner) bool {
	all := len(q.waiting) + len(q.running)
	if o.isOperator() {
		return all < maxFetches
	}
	ofTenant, ofSource := 0, 0
	for _, list := range [][]*queuedFetch{q.waiting, q.running} {
		for _, f := range list {
			if first := f.owners[0]; first.tenant == o.tenant {
				ofTenant++
				if first.source == o.source {
					ofSource++
				}
			}
		}
	}
	return all < maxFetches && ofTenant < fetchesPerTenant && ofSource < fetchesPerSource
}

// add adds a fetch, and starts the fetches that have capacity.
func (q *fetchQueue) add(host string, o owner) *queuedFetch {
	f := &queuedFetch{host: host, owners: []owner{o}, started: make(chan struct{})}
	q.waiting = append(q.waiting, f)
	q.start()
	return f
}

// addOwner adds o to the owners of a waiting fetch, so that the fetch can run as soon
// as one of its owners has capacity.
func (q *fetchQueue) addOwner(f *queuedFetch, o owner) {
	if slices.Contains(q.waiting, f) && !slices.Contains(f.owners, o) {
		f.owners = append(f.owners, o)
		q.start()
	}
}

// remove removes a fetch that has ended or timed out in the queue.
func (q *fetchQueue) remove(f *queuedFetch) {
	q.waiting = without(q.waiting, f)
	q.running = without(q.running, f)
	q.start()
	if len(q.waiting)+len(q.running) == 0 {
		q.lastStart, q.starts = nil, 0 // bounds the memory of lastStart
	}
}

func without(list []*queuedFetch, f *queuedFetch) []*queuedFetch {
	return slices.DeleteFunc(list, func(other *queuedFetch) bool { return other == f })
}

// start starts fetches while there is capacity.
func (q *fetchQueue) start() {
	for len(q.running) < maxRunning {
		next, payer := q.next()
		if next == nil {
			return
		}
		next.payer = payer
		q.waiting = without(q.waiting, next)
		q.running = append(q.running, next)
		q.starts++
		if q.lastStart == nil {
			q.lastStart = map[eventhook.TenantID]int{}
		}
		q.lastStart[payer.tenant] = q.starts
		close(next.started)
	}
}

// next returns the waiting fetch that can run and whose tenant's last fetch
// started the longest time ago, with the owner that has capacity for it. It
// returns nil if no fetch can run.
func (q *fetchQueue) next() (next *queuedFetch, payer owner) {
	for _, f := range q.waiting {
		for _, o := range f.owners {
			if q.canRun(f, o) && (next == nil || q.lastStart[o.tenant] < q.lastStart[payer.tenant]) {
				next, payer = f, o
			}
		}
	}
	return next, payer
}

// canRun reports whether f can run as a fetch of o.
func (q *fetchQueue) canRun(f *queuedFetch, o owner) bool {
	ofTenant, ofSource, ofHost := 0, 0, 0
	for _, r := range q.running {
		if r.host == f.host {
			ofHost++
		}
		if r.payer.tenant == o.tenant {
			ofTenant++
			if r.payer.source == o.source {
				ofSource++
			}
		}
	}
	return ofHost < runningPerHost && (o.isOperator() || ofTenant < runningPerTenant && ofSource < runningPerSource)
}
