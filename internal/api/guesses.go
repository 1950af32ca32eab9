package api

import (
	"net/netip"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/clients"
)

// guesses slows down who tries keys: wrong ones draw on a budget of their
// client's, and while it is used up none of his is looked at. Neighbours behind
// one address go on with keys that were good from there. nil slows nobody down.
type guesses struct {
	wrong *clients.Budget
	good  *lru.Cache[keyFrom, struct{}]
	now   func() time.Time
}

// keyFrom is a key, by its hash, and where it came from.
type keyFrom struct {
	client netip.Addr
	hash   keyHash
}

func newGuesses(now func() time.Time) *guesses {
	const perSecond, burst, keys = 1, 20, 20_000
	good, err := lru.New[keyFrom, struct{}](keys)
	if err != nil {
		panic(err) // the size is a positive constant
	}
	return &guesses{clients.NewBudget(perSecond, burst), good, now}
}

// refuse is the answer to a client that may not try this key now, else nil.
func (g *guesses) refuse(client netip.Addr, hash keyHash) error {
	if g == nil {
		return nil
	}
	wait := g.wrong.Wait(client, g.now())
	if wait == 0 || g.good.Contains(keyFrom{clients.Client(client), hash}) {
		return nil
	}
	return &eventhook.Error{Kind: eventhook.KindRateLimited, RetryAfter: wait,
		Message: "Too many requests from this address had no valid API key; wait before you try again."}
}

// tried notes what came of a key. A failure of ours tells nothing of it.
func (g *guesses) tried(client netip.Addr, hash keyHash, err error) {
	if g == nil {
		return
	}
	from := keyFrom{clients.Client(client), hash}
	switch {
	case err == nil:
		g.good.Add(from, struct{}{})
	case eventhook.KindOf(err) == eventhook.KindUnauthorized:
		g.good.Remove(from)
		g.wrong.Draw(client, g.now())
	}
}
