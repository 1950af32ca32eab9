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

// A Handler processes a job. If it returns nil, the job is completed with job.Output. If it
// returns an error, the attempt fails, the gateway stores the text of the error, and the job is
// retried later if it has attempts left. A job with an error of Permanent is not retried. The
// error that Job.Suspend returns suspends a workflow. A panic fails the attempt.
//
// A Handler should return when ctx is cancelled; see ErrLeaseLost and ErrStopped. The worker
// calls handlers concurrently.
type Handler func(ctx context.Context, job *Job) error

// Worker claims jobs and calls their handlers. Create it with New, register handlers with
// Handle, and then call Run. Run may be called again after it has returned.
type Worker struct {
	settings
	api      *client.Client
	tenant   string
	handlers map[string]Handler
	faults   []error // of the configuration; Run returns them

	closeIdle func() // closes the idle connections of a client that New created
}

// New returns a worker for the tenant at a URL such as
// https://hooks.example.com/api/tenants/acme/eventhook. The key needs the scope work. New makes
// no connection. Run returns the faults of the configuration.
func New(tenantURL, key string, options ...Option) *Worker {
	w := &Worker{settings: defaults(), handlers: map[string]Handler{}, closeIdle: func() {}}
	for _, o := range options {
		o(&w.settings)
	}
	w.faults = w.validate()
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

// Handle registers the handler for jobs of a kind and returns w. The worker does not claim jobs
// of kinds without a handler. Handle must not be called while Run runs.
func (w *Worker) Handle(kind string, h Handler) *Worker {
	const maxKinds = 100 // the API's limit of a claim
	switch {
	case kind == "":
		w.faults = append(w.faults, errors.New("a handler has an empty kind"))
	case h == nil:
		w.faults = append(w.faults, fmt.Errorf("kind %q: its handler is nil", kind))
	case w.handlers[kind] != nil:
		w.faults = append(w.faults, fmt.Errorf("kind %q has two handlers", kind))
	case len(w.handlers) == maxKinds:
		w.faults = append(w.faults, fmt.Errorf("kind %q is one more than the %d kinds that a worker may have", kind, maxKinds))
	default:
		w.handlers[kind] = h
	}
	return w
}

// Run claims and processes jobs until ctx ends, and then shuts down gracefully: it claims no
// more jobs and waits for the running handlers. After the time of WithDrain it cancels their
// contexts with the cause ErrStopped. Run returns nil when all handlers have returned and their
// outcomes are reported. A job whose handler was cancelled by ErrStopped is retried.
//
// If the gateway cannot be reached, is overloaded or fails, Run retries with increasing delays.
// If the gateway rejects claims permanently, for example because of an invalid key, Run shuts
// down as above and returns an error that wraps a *client.Problem. If the configuration is
// invalid, Run returns all its faults and makes no connection.
func (w *Worker) Run(ctx context.Context) error {
	faults := w.faults
	if len(w.handlers) == 0 {
		faults = append(slices.Clip(faults), errors.New("no handler is registered"))
	}
	if len(faults) > 0 {
		return fmt.Errorf("invalid worker configuration: %w", errors.Join(faults...))
	}
	defer w.closeIdle()
	handlerCtx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	r := &run{Worker: w, kinds: slices.Sorted(maps.Keys(w.handlers)), slots: make(chan struct{}, w.concurrency)}
	r.releaseSlots(w.concurrency)
	err := r.claimAll(ctx, handlerCtx)
	drain := time.AfterFunc(w.drain, func() { cancel(ErrStopped) })
	defer drain.Stop()
	r.handlers.Wait()
	return err
}

var tenantPath = regexp.MustCompile(`^(.*)/api/tenants/([a-z0-9-]+)/eventhook/?$`)

// splitURL splits a tenant's URL into the URL of the gateway and the slug of the tenant.
func splitURL(tenantURL string) (server, tenant string, err error) {
	at, err := url.Parse(tenantURL)
	if err != nil {
		return "", "", errors.New("the tenant's URL is not a valid URL") // without its text, which may contain a password
	}
	parts := tenantPath.FindStringSubmatch(at.Path)
	if parts == nil {
		return "", "", fmt.Errorf("the URL %q is not the URL of a tenant, such as https://hooks.example.com/api/tenants/acme/eventhook", at.Redacted())
	}
	at.Path, at.RawPath = parts[1], ""
	return at.String(), parts[2], nil
}
