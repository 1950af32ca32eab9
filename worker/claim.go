package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/eventhook/eventhook/client"
)

// run is a Worker that runs. A token in free is a handler that may be started.
type run struct {
	*Worker
	kinds    []string
	free     chan struct{}
	handlers sync.WaitGroup
}

const (
	claimWait  = 30 * time.Second // how long a claim waits for work; below what proxies bear
	claimMost  = 250              // what a claim may ask for
	claimLeast = time.Second      // who answers nothing sooner does not wait, such as a gateway that stops
)

// claimAll claims work and starts it until ctx ends, which is no error, or the
// gateway refuses the worker for good. What a claim brought is started, though
// ctx has ended.
func (r *run) claimAll(ctx, handling context.Context) error {
	var pause backoff
	for ctx.Err() == nil {
		n := r.take(ctx)
		if n == 0 {
			break
		}
		began := time.Now()
		jobs, err := r.claim(ctx, n)
		for _, h := range jobs {
			r.handlers.Go(func() { r.handle(handling, h) })
		}
		r.give(n - len(jobs))
		switch {
		case err != nil && !passes(err):
			return refused(err)
		case err == nil && (len(jobs) > 0 || time.Since(began) >= claimLeast):
			pause = backoff{}
			continue
		case err != nil && ctx.Err() == nil:
			r.log.WarnContext(ctx, "cannot claim work; trying again", "queue", r.queue, "error", err)
		}
		sleep(ctx, pause.next(err))
	}
	return nil
}

// take waits until a handler may be started, and takes all that may, as far as
// a claim can fill them. It is 0 when ctx ends.
func (r *run) take(ctx context.Context) (n int) {
	select {
	case <-ctx.Done():
		return 0
	case <-r.free:
	}
	for n = 1; n < claimMost; n++ {
		select {
		case <-r.free:
		default:
			return n
		}
	}
	return n
}

func (r *run) give(n int) {
	for range n {
		r.free <- struct{}{}
	}
}

// claim waits for up to n pieces of work. When ctx ends first, the gateway may
// have leased some that never arrive: others get them when their leases end.
func (r *run) claim(ctx context.Context, n int) ([]*held, error) {
	var raw []byte
	_, err := r.api.ClaimWork(ctx, r.tenant, client.ClaimRequest{
		Queue: &r.queue, Kinds: r.kinds, Max: new(int64(n)), WaitSeconds: seconds(claimWait), LeaseSeconds: seconds(r.lease),
	}, client.KeepBody(&raw))
	if err != nil {
		return nil, err
	}
	var answer struct{ Items []claimed }
	if err := json.Unmarshal(raw, &answer); err != nil {
		return nil, fmt.Errorf("read the claimed work: %w", err)
	}
	until := time.Now().Add(r.lease)
	var jobs []*held
	for _, item := range answer.Items[:min(n, len(answer.Items))] {
		jobs = append(jobs, r.hold(item, until))
	}
	return jobs, nil
}

// claimed is work as the gateway hands it out, with JSON as it came.
type claimed struct {
	client.WorkItem
	Input    json.RawMessage `json:"input"`
	State    json.RawMessage `json:"state"`
	Promises []Promise       `json:"promises"`
}

func (r *run) hold(item claimed, until time.Time) *held {
	job := &Job{ID: item.ID, Type: string(item.Type), Kind: item.Kind, Queue: item.Queue, Attempt: int(item.Attempt),
		EventID: text(item.EventID), IdempotencyKey: text(item.IdempotencyKey),
		Input: item.Input, State: item.State, Promises: item.Promises, api: r.api, tenant: r.tenant}
	return &held{Job: job, token: item.LeaseToken, until: until, log: r.log.With("job", job.ID, "kind", job.Kind, "attempt", job.Attempt)}
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// refused says what a person can do about a claim that the gateway refuses.
func refused(err error) error {
	advice := "the gateway refuses it"
	switch client.StatusOf(err) {
	case http.StatusUnauthorized:
		advice = "the gateway does not take the key"
	case http.StatusForbidden:
		advice = "the key lacks the scope work"
	case http.StatusNotFound:
		advice = "there is no such tenant for this key"
	}
	return fmt.Errorf("claim work: %s: %w", advice, err)
}
