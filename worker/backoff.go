package worker

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/eventhook/eventhook/client"
)

// backoff computes the delays between retries. The delay doubles with each retry. Jitter of up
// to one half spreads the retries of several workers.
type backoff struct{ tries int }

const (
	firstDelay    = 500 * time.Millisecond
	maxDelay      = 30 * time.Second
	maxRetryAfter = 10 * time.Minute // limits the Retry-After of an answer
)

// next returns the delay before the next retry. If err is a *client.Problem, the delay is at
// least its RetryAfter, up to maxRetryAfter.
func (b *backoff) next(err error) time.Duration {
	full := min(firstDelay<<min(b.tries, 10), maxDelay)
	b.tries++
	delay := full/2 + rand.N(full/2) //nolint:gosec // jitter, not a secret
	if p, ok := errors.AsType[*client.Problem](err); ok {
		delay = max(delay, min(p.RetryAfter, maxRetryAfter))
	}
	return delay
}

// isTemporary reports whether a retry may succeed: the gateway did not answer, failed, or
// limits the rate.
func isTemporary(err error) bool {
	status := client.StatusOf(err)
	return status == 0 || status == http.StatusRequestTimeout || status == http.StatusTooManyRequests ||
		status >= http.StatusInternalServerError
}

// sleep waits for d. It returns false if ctx ends first.
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
