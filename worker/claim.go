package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/backoff"
)

// run is the state of one call of Worker.Run.
type run struct {
	*Worker
	kinds    []string
	slots    chan struct{} // one element for each handler that may be started
	handlers sync.WaitGroup
}

const (
	// claimWait is how long a claim waits for work. It is shorter than the usual timeouts
	// of proxies.
	claimWait = 30 * time.Second
	maxClaim  = 250 // the API's limit of a claim
	// minClaimWait separates an empty answer after a wait from an immediate one, such as
	// that of a gateway that shuts down. After an immediate one the worker backs off.
	minClaimWait = time.Second
)

// claimAll claims jobs and starts their handlers with handlerCtx. It returns nil when ctx ends,
// and an error if the gateway rejects a claim permanently. It starts every claimed job, even if
// ctx has ended meanwhile.
func (r *run) claimAll(ctx, handlerCtx context.Context) error {
	var retry backoff.Calls
	for ctx.Err() == nil {
		n := r.acquireSlots(ctx)
		if n == 0 {
			break
		}
		began := time.Now()
		jobs, err := r.claim(ctx, n)
		for _, job := range jobs {
			r.handlers.Go(func() { r.handle(handlerCtx, job) })
		}
		r.releaseSlots(n - len(jobs))
		switch {
		case err != nil && !client.IsTemporary(err):
			return claimRejected(err)
		case err == nil && (len(jobs) > 0 || time.Since(began) >= minClaimWait):
			retry = backoff.Calls{}
			continue
		case err != nil && ctx.Err() == nil:
			r.log.WarnContext(ctx, "cannot claim work; retrying", "queue", r.queue, "error", err)
		}
		backoff.Sleep(ctx, retry.Next(client.RetryAfterOf(err)))
	}
	return nil
}

// acquireSlots waits for a free slot and acquires all free slots, up to maxClaim. It returns
// their number, or 0 if ctx ends first.
func (r *run) acquireSlots(ctx context.Context) (n int) {
	select {
	case <-ctx.Done():
		return 0
	case <-r.slots:
	}
	for n = 1; n < maxClaim; n++ {
		select {
		case <-r.slots:
		default:
			return n
		}
	}
	return n
}

func (r *run) releaseSlots(n int) {
	for range n {
		r.slots <- struct{}{}
	}
}

// claim waits for work and returns up to n jobs. If ctx ends first, the gateway may have leased
// jobs whose answer is lost; they are due again when their leases end.
func (r *run) claim(ctx context.Context, n int) ([]*leasedJob, error) {
	var raw []byte
	_, err := r.api.ClaimWork(ctx, r.tenant, client.ClaimRequest{
		Queue: &r.queue, Kinds: r.kinds, Max: new(int64(n)), WaitSeconds: seconds(claimWait), LeaseSeconds: seconds(r.lease),
	}, client.KeepBody(&raw))
	if err != nil {
		return nil, err
	}
	var answer struct{ Items []claimedItem }
	if err := json.Unmarshal(raw, &answer); err != nil {
		return nil, fmt.Errorf("read the claimed work: %w", err)
	}
	until := time.Now().Add(r.lease)
	var jobs []*leasedJob
	for _, item := range answer.Items[:min(n, len(answer.Items))] {
		jobs = append(jobs, r.newLeasedJob(item, until))
	}
	return jobs, nil
}

// claimedItem is an item of the answer to a claim. Its own fields keep JSON as it was received.
type claimedItem struct {
	client.WorkItem
	Input    json.RawMessage `json:"input"`
	State    json.RawMessage `json:"state"`
	Promises []Promise       `json:"promises"`
}

func (r *run) newLeasedJob(item claimedItem, until time.Time) *leasedJob {
	job := &Job{ID: item.ID, Type: string(item.Type), Kind: item.Kind, Queue: item.Queue, Attempt: int(item.Attempt),
		Priority: int(item.Priority), TraceID: item.TraceID, Traceparent: item.Traceparent,
		EventID: stringOf(item.EventID), IdempotencyKey: stringOf(item.IdempotencyKey),
		Input: item.Input, State: item.State, Promises: item.Promises, api: r.api, tenant: r.tenant}
	return &leasedJob{Job: job, token: item.LeaseToken, until: until,
		log: r.log.With("job", job.ID, "kind", job.Kind, "attempt", job.Attempt, "trace_id", job.TraceID)}
}

// stringOf returns *s, or "" if s is nil.
func stringOf(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// claimRejected wraps the error of a claim that the gateway rejected with the likely reason.
func claimRejected(err error) error {
	reason := "the gateway rejected the request"
	switch client.StatusOf(err) {
	case http.StatusUnauthorized:
		reason = "the key is not valid"
	case http.StatusForbidden:
		reason = "the key lacks the scope work"
	case http.StatusNotFound:
		reason = "the key has no access to the tenant, or the tenant does not exist"
	}
	return fmt.Errorf("claim work: %s: %w", reason, err)
}
