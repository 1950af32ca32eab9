package worker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"time"

	"github.com/eventhook/eventhook/client"
)

// Handler does one piece of work. Nil completes it with job.Output. An error
// fails the attempt with its text, which people read, and the work is tried
// again later while it has attempts left; after Permanent it is not. What
// Job.Suspend returns suspends a workflow. A handler that panics has failed.
type Handler func(ctx context.Context, job *Job) error

// Worker claims work and has it done. It is configured first, by New and
// Handle, and then run.
type Worker struct {
	settings
	api      *client.Client
	tenant   string
	handlers map[string]Handler
	faults   []error // of the configuration, for Run

	closeIdle func() // connections that are the worker's own
}

// New makes a worker for the tenant at a URL, such as
// https://hooks.example.com/api/tenants/acme/eventhook, with a key of the scope
// work. It connects to nothing; what is wrong with its configuration is what
// Run returns.
func New(tenantURL, key string, options ...Option) *Worker {
	w := &Worker{settings: defaults(), handlers: map[string]Handler{}, closeIdle: func() {}}
	for _, o := range options {
		o(&w.settings)
	}
	w.faults = w.check()
	if w.http == nil {
		w.http = newHTTPClient(w.concurrency)
		w.closeIdle = w.http.CloseIdleConnections
	}
	server, tenant, err := splitURL(tenantURL)
	if err != nil {
		w.faults = append(w.faults, err)
		return w
	}
	w.tenant = tenant
	w.api, err = client.New(server, key, client.WithHTTPClient(w.http), client.WithUserAgent("eventhook-worker"))
	if err != nil {
		w.faults = append(w.faults, err)
	}
	return w
}

// Handle says who does work of a kind. Work of kinds without a handler is left
// to others. It returns the worker, and must not be called once that runs.
func (w *Worker) Handle(kind string, h Handler) *Worker {
	const mostKinds = 100 // in a claim
	switch {
	case kind == "":
		w.faults = append(w.faults, errors.New("a handler has no kind"))
	case h == nil:
		w.faults = append(w.faults, fmt.Errorf("kind %q: its handler is nil", kind))
	case w.handlers[kind] != nil:
		w.faults = append(w.faults, fmt.Errorf("kind %q has two handlers", kind))
	case len(w.handlers) == mostKinds:
		w.faults = append(w.faults, fmt.Errorf("kind %q is one more than the %d that a worker takes", kind, mostKinds))
	default:
		w.handlers[kind] = h
	}
	return w
}

// Run works until ctx ends, and then stops: it claims no more, lets running
// handlers end, cancels their contexts (cause ErrStopped) when they have not
// ended within the time of WithDrain, waits for them, and returns nil. It tells
// the gateway what came of each to the last; work whose handler was cancelled
// so is failed, to be tried again.
//
// A gateway that cannot be reached, is overloaded or fails is asked again, ever
// more slowly. Run returns an error, having stopped as above, when the gateway
// refuses the worker for good, such as for a wrong key; the error then wraps
// a *client.Problem. It returns every fault of the configuration at once.
func (w *Worker) Run(ctx context.Context) error {
	faults := w.faults
	if len(w.handlers) == 0 {
		faults = append(slices.Clip(faults), errors.New("no kind has a handler: there is nothing to claim"))
	}
	if len(faults) > 0 {
		return fmt.Errorf("the worker is not configured: %w", errors.Join(faults...))
	}
	defer w.closeIdle()
	handling, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	r := &run{Worker: w, kinds: slices.Sorted(maps.Keys(w.handlers)), free: make(chan struct{}, w.concurrency)}
	for range w.concurrency {
		r.free <- struct{}{}
	}
	err := r.claimAll(ctx, handling)
	drain := time.AfterFunc(w.drain, func() { cancel(ErrStopped) })
	defer drain.Stop()
	r.handlers.Wait()
	return err
}

var tenantPath = regexp.MustCompile(`^(.*)/api/tenants/([a-z0-9-]+)/eventhook/?$`)

// splitURL finds the gateway and the tenant in a tenant's URL.
func splitURL(tenantURL string) (server, tenant string, err error) {
	at, err := url.Parse(tenantURL)
	if err != nil {
		return "", "", errors.New("the tenant's URL is not a URL") // what it is may hold a password
	}
	parts := tenantPath.FindStringSubmatch(at.Path)
	if parts == nil {
		return "", "", fmt.Errorf("the URL %q must be the tenant's, such as https://hooks.example.com/api/tenants/acme/eventhook", at.Redacted())
	}
	at.Path, at.RawPath = parts[1], ""
	return at.String(), parts[2], nil
}
