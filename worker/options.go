package worker

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/eventhook/eventhook/client"
)

// settings are what options change.
type settings struct {
	queue       string
	concurrency int
	lease       time.Duration
	drain       time.Duration
	log         *slog.Logger
	http        *http.Client // nil: the worker's own
}

// Option changes how a Worker works.
type Option func(*settings)

// WithQueue names the queue to claim from, instead of "default".
func WithQueue(name string) Option { return func(s *settings) { s.queue = name } }

// WithConcurrency is how many handlers run at once, instead of 10.
func WithConcurrency(n int) Option { return func(s *settings) { s.concurrency = n } }

// WithLease is how long work stays the worker's without a sign of life, in
// whole seconds, 30 without this. After each third of that a heartbeat makes it as long again; longer
// leases bear longer outages, and after a worker's death the work waits longer.
func WithLease(d time.Duration) Option { return func(s *settings) { s.lease = d } }

// WithDrain is how long handlers may go on when the worker stops, instead of 30 s.
func WithDrain(d time.Duration) Option { return func(s *settings) { s.drain = d } }

// WithLogger logs elsewhere than to slog's default.
func WithLogger(l *slog.Logger) Option { return func(s *settings) { s.log = l } }

// WithHTTPClient makes calls through another HTTP client than the worker's own.
// It must let an answer take a minute.
func WithHTTPClient(h *http.Client) Option { return func(s *settings) { s.http = h } }

func defaults() settings {
	return settings{queue: "default", concurrency: 10, lease: 30 * time.Second, drain: 30 * time.Second, log: slog.Default()}
}

// check reports every fault of the settings.
func (s settings) check() (faults []error) {
	if s.queue == "" {
		faults = append(faults, errors.New("the queue has no name"))
	}
	if s.concurrency < 1 {
		faults = append(faults, fmt.Errorf("the concurrency is %d, want at least 1", s.concurrency))
	}
	if s.lease < time.Second || s.lease > time.Hour || s.lease%time.Second != 0 {
		faults = append(faults, fmt.Errorf("the lease is %v, want whole seconds, from 1s to 1h", s.lease))
	}
	if s.drain < 0 {
		faults = append(faults, fmt.Errorf("the drain is %v, want none or a time", s.drain))
	}
	if s.log == nil {
		faults = append(faults, errors.New("the logger is nil"))
	}
	return faults
}

// newHTTPClient makes as many connections as there can be calls at once. It
// follows no redirects: a key must not be sent to where somebody points.
func newHTTPClient(concurrency int) *http.Client {
	return &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			Proxy:                 http.ProxyFromEnvironment,
			ForceAttemptHTTP2:     true,
			MaxIdleConnsPerHost:   2*concurrency + 1, // a claim; of each handler a heartbeat and what it asks
			IdleConnTimeout:       90 * time.Second,
			TLSHandshakeTimeout:   10 * time.Second,
			ResponseHeaderTimeout: client.DefaultTimeout,
		},
	}
}
