package worker

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/eventhook/eventhook/client"
)

// backoff is how long to wait before the next try: twice as long each time, and
// between half and all of it by chance, so that workers do not come together.
type backoff struct{ tries int }

const (
	firstPause = 500 * time.Millisecond
	mostPause  = 30 * time.Second
	mostAfter  = 10 * time.Minute // how far a Retry-After is believed
)

// next is at least as long as the gateway wants to be left alone.
func (b *backoff) next(err error) time.Duration {
	full := min(firstPause<<min(b.tries, 10), mostPause)
	b.tries++
	pause := full/2 + rand.N(full/2) //nolint:gosec // chance, not a secret
	if p, ok := errors.AsType[*client.Problem](err); ok {
		pause = max(pause, min(p.RetryAfter, mostAfter))
	}
	return pause
}

// passes tells an error that may be gone at the next try from a refusal.
func passes(err error) bool {
	status := client.StatusOf(err)
	return status == 0 || status == http.StatusRequestTimeout || status == http.StatusTooManyRequests ||
		status >= http.StatusInternalServerError
}

// sleep returns false when ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
