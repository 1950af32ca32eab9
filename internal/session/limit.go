package session

import (
	"context"
	"crypto/sha256"
	"net/http"
	"net/netip"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/clients"
)

// limiter bounds what strangers cost, as the API does for wrong keys. Unknown tokens and codes take
// from the budget of their client address. While the budget is exhausted, they get KindRateLimited,
// and only a few are looked up at the same time and per second, over all such clients. A valid token
// is never refused because of others from the same address, which may be a proxy with many clients; it
// waits for its first lookup on this instance. A limiter is safe for concurrent use.
type limiter struct {
	client func(*http.Request) netip.Addr // nil: no limits
	now    func() time.Time
	wrong  *clients.Budget
	starts *clients.Budget
	known  *lru.Cache[tokenHash, struct{}] // tokens that were valid when they were looked up last
	slots  chan struct{}                   // of lookups for clients without budget
	pace   *rate.Limiter                   // of the lookups in slots
}

type tokenHash [sha256.Size]byte

func newLimiter(client func(*http.Request) netip.Addr, now func() time.Time) *limiter {
	const (
		wrongPerSecond, wrongBurst   = 1, 20
		startsPerSecond, startsBurst = 2, 50
		places, lookupsPerSecond     = 2, 200
		knownTokens                  = 10_000
	)
	known, err := lru.New[tokenHash, struct{}](knownTokens)
	if err != nil {
		panic(err) // the size is a positive constant
	}
	return &limiter{client: client, now: now, wrong: clients.NewBudget(wrongPerSecond, wrongBurst),
		starts: clients.NewBudget(startsPerSecond, startsBurst), known: known, slots: make(chan struct{}, places),
		pace: rate.NewLimiter(lookupsPerSecond, places)}
}

// findToken calls find for a token. The error of find is KindUnauthorized if the token is not valid.
func (l *limiter) findToken(r *http.Request, hash tokenHash, find func(context.Context) error) error {
	if l.known.Contains(hash) {
		err := find(r.Context())
		if isWrong(err) {
			l.known.Remove(hash)
		}
		return err
	}
	err := l.find(r, find)
	if err == nil {
		l.known.Add(hash, struct{}{})
	}
	return err
}

// find calls find for a text that the client may have invented. The call takes from the budget before
// find runs, so concurrent requests cannot exceed the budget, and find continues if the client
// disconnects. The budget gets it back unless the error of find says that the text is wrong.
func (l *limiter) find(r *http.Request, find func(context.Context) error) error {
	if l.client == nil {
		return find(r.Context())
	}
	client := l.client(r)
	isPaid := l.wrong.Take(client, l.now())
	if !isPaid {
		select {
		case l.slots <- struct{}{}:
			defer func() { <-l.slots }()
		case <-r.Context().Done():
			return r.Context().Err()
		}
		if err := l.pace.Wait(r.Context()); err != nil {
			return err
		}
	}
	err := find(context.WithoutCancel(r.Context()))
	switch {
	case isPaid && !isWrong(err):
		l.wrong.Return(client, l.now())
	case !isPaid && isWrong(err) && !l.wrong.Take(client, l.now()):
		return l.refusal(l.wrong, client, "Too many requests from your address had a session or a link that is not valid. Try again in a minute.")
	}
	return err
}

// start takes the start of a session from the budget of the client address. It bounds the rows that
// the holder of a key or a link can store.
func (l *limiter) start(r *http.Request) error {
	if l.client == nil || l.starts.Take(l.client(r), l.now()) {
		return nil
	}
	return l.refusal(l.starts, l.client(r), "Too many people signed in from your address. Try again in a minute.")
}

func (l *limiter) refusal(b *clients.Budget, client netip.Addr, message string) error {
	return &eventhook.Error{Kind: eventhook.KindRateLimited, RetryAfter: max(b.Wait(client, l.now()), 1), Message: message}
}

func isWrong(err error) bool {
	kind := eventhook.KindOf(err)
	return kind == eventhook.KindUnauthorized || kind == eventhook.KindNotFound
}
