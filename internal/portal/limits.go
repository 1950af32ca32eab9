package portal

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/clients"
	"github.com/eventhook/eventhook/internal/roundrobin"
)

// limits bound what customers use on this instance. Beyond them, a request waits a little and is then
// refused before it calls the API, so that a customer delays nobody but itself.
type limits struct {
	pages *roundrobin.Slots[customer]
	// tests are the pages that wait for a receiver of the customer, in addition to pages.
	tests *roundrobin.Slots[customer]
	// enters has the budget of each client address for opening links.
	enters *clients.Budget
}

// customer is a customer of a tenant. All its sessions and links share its slots.
type customer struct{ tenant, scope string }

const (
	pagesAtOnce, pagesOfCustomer, pagesWaiting = 1024, 2, 16
	testsAtOnce, testsOfCustomer, testsWaiting = 1024, 1, 4

	slotTimeout = 5 * time.Second // longest wait for a slot

	entersPerSecond, entersAtOnce = 2, 100
)

func newLimits() limits {
	return limits{pages: roundrobin.NewSlots[customer](pagesAtOnce, pagesOfCustomer, pagesWaiting),
		tests:  roundrobin.NewSlots[customer](testsAtOnce, testsOfCustomer, testsWaiting),
		enters: clients.NewBudget(entersPerSecond, entersAtOnce)}
}

// errBusy refuses a request whose customer has too many at once.
var errBusy = &client.Problem{Status: http.StatusTooManyRequests, RetryAfter: time.Second,
	Detail: "Too many pages of your account are opened at once. Wait a few seconds, then load this page again."}

// acquire waits for the slots of a page. Without an error, release must be called.
func (l limits) acquire(ctx context.Context, of customer, p page) (release func(), err error) {
	releasePage, err := acquireSlot(ctx, l.pages, of)
	if err != nil || !p.isTest {
		return releasePage, err
	}
	releaseTest, err := acquireSlot(ctx, l.tests, of)
	if err != nil {
		releasePage()
		return nil, err
	}
	return func() { releaseTest(); releasePage() }, nil
}

func acquireSlot(ctx context.Context, slots *roundrobin.Slots[customer], of customer) (release func(), err error) {
	err = slots.Acquire(ctx, of, slotTimeout)
	if errors.Is(err, roundrobin.ErrFull) || errors.Is(err, roundrobin.ErrTimeout) {
		err = errBusy
	}
	return func() { slots.Release(of) }, err
}

// takeEntry takes the opening of a link from the budget of its client address.
func (p *Portal) takeEntry(r *http.Request) error {
	address, now := p.Client(r), p.Now()
	if p.limits.enters.Take(address, now) {
		return nil
	}
	return &client.Problem{Status: http.StatusTooManyRequests, RetryAfter: max(p.limits.enters.Wait(address, now),
		time.Second),
		Detail: "Too many links were opened from your address. Wait a minute, then open the link again."}
}
