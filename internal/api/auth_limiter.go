package api

import (
	"context"
	"net/netip"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/clients"
)

// wrongKeyLimiter bounds the cost of requests with wrong keys: database queries, log
// lines and metrics. It does not protect keys from guessing; keys that NewKey
// generates have 256 random bits. A valid key is never refused because of wrong keys
// from the same address, which may be a proxy with many clients.
//
// A wrong key takes from the budget of its client address. While the budget is
// exhausted, wrong keys get KindRateLimited, and only a few keys that are not cached
// are looked up at the same time, over all such clients. A wrongKeyLimiter is safe
// for concurrent use.
type wrongKeyLimiter struct {
	keys    *keyring
	budget  *clients.Budget // nil: no budgets
	lookups chan struct{}   // slots of lookups for clients without budget
	now     func() time.Time
}

// newWrongKeyLimiter returns a limiter in front of a keyring. Without client
// addresses there are no budgets.
func newWrongKeyLimiter(keys *keyring, hasAddresses bool, now func() time.Time) *wrongKeyLimiter {
	const perSecond, burst, places = 1, 20, 2
	g := &wrongKeyLimiter{keys: keys, lookups: make(chan struct{}, places), now: now}
	if hasAddresses {
		g.budget = clients.NewBudget(perSecond, burst)
	}
	return g
}

// authenticate returns the identity of a credential, as the keyring does. For a wrong key
// that exceeds the budget of the client, the error is KindRateLimited. A key that
// needs a lookup takes from the budget before the lookup, and returns it unless the
// key is wrong; so concurrent requests cannot exceed the budget. Internal errors do
// not use the budget.
func (g *wrongKeyLimiter) authenticate(ctx context.Context, client netip.Addr, c credential) (identity, error) {
	if g.budget == nil {
		return g.keys.authenticate(ctx, c)
	}
	authenticate, drawn := g.keys.authenticate, false
	if g.keys.needsLookup(c) {
		if drawn = g.budget.Take(client, g.now()); drawn {
			ctx = context.WithoutCancel(ctx) // the lookup continues and counts if the client disconnects
		} else {
			authenticate = g.authenticateInSlot
		}
	}
	h, err := authenticate(ctx, c)
	isWrong := eventhook.KindOf(err) == eventhook.KindUnauthorized
	if drawn && !isWrong {
		g.budget.Return(client, g.now())
	}
	if isWrong && !drawn && !g.budget.Take(client, g.now()) {
		return h, &eventhook.Error{Kind: eventhook.KindRateLimited, RetryAfter: max(g.budget.Wait(client, g.now()), 1),
			Message: "Too many requests from this address had an invalid API key; try again after the time in Retry-After."}
	}
	return h, err
}

// authenticateInSlot waits for one of the lookup slots. The slot is released when
// the lookup ends, which continues if the client disconnects.
func (g *wrongKeyLimiter) authenticateInSlot(ctx context.Context, c credential) (identity, error) {
	select {
	case g.lookups <- struct{}{}:
		defer func() { <-g.lookups }()
		return g.keys.authenticate(context.WithoutCancel(ctx), c)
	case <-ctx.Done():
		return identity{}, ctx.Err()
	}
}
