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
type guesses struct {
	keys   *keyring
	wrong  *clients.Budget // nil: nobody's is ever used up
	places chan struct{}   // holds one for each lookup beyond a budget
	now    func() time.Time
}

// newGuesses looks for keys in a keyring. Without addresses there are no
// clients to tell apart, and no budgets.
func newGuesses(keys *keyring, hasAddresses bool, now func() time.Time) *guesses {
	const perSecond, burst, places = 1, 20, 2
	g := &guesses{keys: keys, places: make(chan struct{}, places), now: now}
	if hasAddresses {
		g.wrong = clients.NewBudget(perSecond, burst)
	}
	return g
}

// find tells whose a key is, as the keyring does; of a wrong one that exceeds
// its client's budget the error is KindRateLimited. A key that must be looked
// up is drawn for until it turns out to be right, so that those in flight do not
// exceed the budget. A failure of ours tells nothing of a key, and draws nothing.
func (g *guesses) find(ctx context.Context, client netip.Addr, token string, hash keyHash) (holder, error) {
	if g.wrong == nil {
		return g.keys.find(ctx, token, hash)
	}
	find, drawn := g.keys.find, false
	if g.keys.mustAsk(token, hash) {
		if drawn = g.wrong.Take(client, g.now()); drawn {
			ctx = context.WithoutCancel(ctx) // the lookup goes on when the client has left, and counts
		} else {
			find = g.findInTurn
		}
	}
	h, err := find(ctx, token, hash)
	isWrong := eventhook.KindOf(err) == eventhook.KindUnauthorized
	if drawn && !isWrong {
		g.wrong.Return(client, g.now())
	}
	if isWrong && !drawn && !g.wrong.Take(client, g.now()) {
		return h, &eventhook.Error{Kind: eventhook.KindRateLimited, RetryAfter: max(g.wrong.Wait(client, g.now()), 1),
			Message: "Too many requests from this address had no valid API key; wait before you try again."}
	}
	return h, err
}

// findInTurn waits for one of the places. It keeps the place until the lookup
// ends, which goes on when its client has left.
func (g *guesses) findInTurn(ctx context.Context, token string, hash keyHash) (holder, error) {
	select {
	case g.places <- struct{}{}:
		defer func() { <-g.places }()
		return g.keys.find(context.WithoutCancel(ctx), token, hash)
	case <-ctx.Done():
		return holder{}, ctx.Err()
	}
}
