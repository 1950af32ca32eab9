package api

import (
	"context"
	"net/netip"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/clients"
)

// guesses bounds what wrong keys cost: lookups in the database, lines in logs,
// noise in the metrics. It guards no key: one that NewKey makes has 256 random
// bits, which nobody finds by trying, and the admin's shall have as many. So a
// right key is never refused because of others' wrong ones from its address,
// which may be a proxy's and then is everybody's.
//
// A wrong key draws on a budget of its client's. While that is used up, wrong
// keys are answered KindRateLimited, and of all such clients' keys that are not
// in memory a few at once are looked up. Safe for concurrent use.
type wrongKeyLimiter struct {
	keys    *keyring
	budget  *clients.Budget // nil: nobody's is ever used up
	lookups chan struct{}   // holds one for each lookup beyond a budget
	now     func() time.Time
}

// newWrongKeyLimiter looks for keys in a keyring. Without addresses there are no
// clients to tell apart, and no budgets.
func newWrongKeyLimiter(keys *keyring, hasAddresses bool, now func() time.Time) *wrongKeyLimiter {
	const perSecond, burst, places = 1, 20, 2
	g := &wrongKeyLimiter{keys: keys, lookups: make(chan struct{}, places), now: now}
	if hasAddresses {
		g.budget = clients.NewBudget(perSecond, burst)
	}
	return g
}

// find tells whose a key is, as the keyring does; of a wrong one that exceeds
// its client's budget the error is KindRateLimited. A key that must be looked
// up is drawn for until it turns out to be right, so that those in flight do not
// exceed the budget. A failure of ours tells nothing of a key, and draws nothing.
func (g *wrongKeyLimiter) authenticate(ctx context.Context, client netip.Addr, token string, hash keyHash) (identity, error) {
	if g.budget == nil {
		return g.keys.authenticate(ctx, token, hash)
	}
	authenticate, drawn := g.keys.authenticate, false
	if g.keys.needsLookup(token, hash) {
		if drawn = g.budget.Take(client, g.now()); drawn {
			ctx = context.WithoutCancel(ctx) // the lookup goes on when the client has left, and counts
		} else {
			authenticate = g.authenticateInSlot
		}
	}
	h, err := authenticate(ctx, token, hash)
	isWrong := eventhook.KindOf(err) == eventhook.KindUnauthorized
	if drawn && !isWrong {
		g.budget.Return(client, g.now())
	}
	if isWrong && !drawn && !g.budget.Take(client, g.now()) {
		return h, &eventhook.Error{Kind: eventhook.KindRateLimited, RetryAfter: max(g.budget.Wait(client, g.now()), 1),
			Message: "Too many requests from this address had no valid API key; wait before you try again."}
	}
	return h, err
}

// authenticateInSlot waits for one of the places. It keeps the place until the lookup
// ends, which goes on when its client has left.
func (g *wrongKeyLimiter) authenticateInSlot(ctx context.Context, token string, hash keyHash) (identity, error) {
	select {
	case g.lookups <- struct{}{}:
		defer func() { <-g.lookups }()
		return g.keys.authenticate(context.WithoutCancel(ctx), token, hash)
	case <-ctx.Done():
		return identity{}, ctx.Err()
	}
}
