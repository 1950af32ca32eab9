package worker

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/eventhook/eventhook/client"
)

// settings are the values that options set.
type settings struct {
	queue       string
	concurrency int
	lease       time.Duration
	drain       time.Duration
	log         *slog.Logger
	http        *http.Client // nil: New creates one
}

// Option configures a Worker.
type Option func(*settings)

// WithQueue sets the queue to claim from. The default is "default".
func WithQueue(name string) Option { return func(s *settings) { s.queue = name } }

// WithConcurrency sets the maximum number of handlers that run concurrently. The default is 10.
func WithConcurrency(n int) Option { return func(s *settings) { s.concurrency = n } }

// WithLease sets the duration of leases: whole seconds from 1 s to 1 h. The default is 30 s. A
// heartbeat renews the lease after each third of it. A longer lease tolerates longer outages of
// the gateway, but delays the retry of jobs after a crash of the worker.
func WithLease(d time.Duration) Option { return func(s *settings) { s.lease = d } }

// WithDrain sets how long handlers may continue after Run's context has ended, before their
// contexts are cancelled. The default is 30 s.
func WithDrain(d time.Duration) Option { return func(s *settings) { s.drain = d } }

// WithLogger sets the logger. The default is slog.Default.
func WithLogger(l *slog.Logger) Option { return func(s *settings) { s.log = l } }

// WithHTTPClient sets the HTTP client for calls of the gateway. It must allow an answer to take
// a minute, because claims wait for work. The default client follows no redirects and uses
// http.ProxyFromEnvironment.
func WithHTTPClient(h *http.Client) Option { return func(s *settings) { s.http = h } }

func defaults() settings {
	return settings{queue: "default", concurrency: 10, lease: 30 * time.Second, drain: 30 * time.Second, log: slog.Default()}
}

// validate returns every fault of the settings.
func (s settings) validate() (faults []error) {
	if s.queue == "" {
		faults = append(faults, errors.New("the queue is empty"))
	}
	if s.concurrency < 1 {
		faults = append(faults, fmt.Errorf("the concurrency is %d, want at least 1", s.concurrency))
	}
	if s.lease < time.Second || s.lease > time.Hour || s.lease%time.Second != 0 {
		faults = append(faults, fmt.Errorf("the lease is %v, want whole seconds, from 1s to 1h", s.lease))
	}
	if s.drain < 0 {
		faults = append(faults, fmt.Errorf("the drain time is %v, want at least 0", s.drain))
	}
	if s.log == nil {
		faults = append(faults, errors.New("the logger is nil"))
	}
	return faults
}

// newHTTPClient returns a client that keeps a connection for each concurrent call. It follows
// no redirects, so that the key is sent to the configured gateway only.
func newHTTPClient(concurrency int) *http.Client {
	return &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			Proxy:                 http.ProxyFromEnvironment,
			ForceAttemptHTTP2:     true,
			MaxIdleConnsPerHost:   2*concurrency + 1, // a claim, and for each handler a heartbeat and another call
			IdleConnTimeout:       90 * time.Second,
			TLSHandshakeTimeout:   10 * time.Second,
			ResponseHeaderTimeout: client.DefaultTimeout,
		},
	}
}
