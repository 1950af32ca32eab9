package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// DefaultTimeout bounds a call. It is longer than the longest wait that the
// API offers.
const DefaultTimeout = 90 * time.Second

// DefaultUserAgent is what a Client calls itself.
const DefaultUserAgent = "eventhook-client"

// Client calls the API of one gateway with one key. It may be used by several
// goroutines at once.
type Client struct {
	server    *url.URL
	authorize func(http.Header) // holds the key, so that nothing prints it
	http      *http.Client
	userAgent string
	timeout   time.Duration
}

// Option changes how a Client calls.
type Option func(*Client)

// WithHTTPClient makes calls through another HTTP client than the package's
// own, which follows no redirects and bounds what it waits for.
func WithHTTPClient(h *http.Client) Option { return func(c *Client) { c.http = h } }

// WithUserAgent names the program that calls.
func WithUserAgent(name string) Option { return func(c *Client) { c.userAgent = name } }

// WithTimeout bounds each call, from its start until its answer is read; 0
// leaves that to the call's context. Answers that are handed out as they come
// are not bounded.
func WithTimeout(d time.Duration) Option { return func(c *Client) { c.timeout = d } }

// New makes a client of the gateway at a server, such as
// https://hooks.example.com, with a tenant's key or the admin key. It connects
// to nothing. No error of it, nor of any call, holds the key.
func New(server, key string, options ...Option) (*Client, error) {
	at, err := parseServer(server)
	if err != nil {
		return nil, err
	}
	if key == "" || strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, errors.New("the key must be visible ASCII characters without spaces")
	}
	c := &Client{
		server:    at,
		authorize: func(h http.Header) { h.Set("Authorization", "Bearer "+key) },
		http:      newHTTPClient(),
		userAgent: DefaultUserAgent,
		timeout:   DefaultTimeout,
	}
	for _, o := range options {
		o(c)
	}
	return c, nil
}

func parseServer(server string) (*url.URL, error) {
	at, err := url.Parse(server)
	switch {
	case err != nil:
		return nil, errors.New("the server is not a URL")
	case at.Scheme != "http" && at.Scheme != "https", at.Host == "":
		return nil, fmt.Errorf("the server %q must be a URL such as https://hooks.example.com", at.Redacted())
	case at.User != nil, at.RawQuery != "", at.Fragment != "":
		return nil, fmt.Errorf("the server %q must have no user, query or fragment", at.Redacted())
	}
	at.Path = strings.TrimSuffix(at.Path, "/")
	return at, nil
}

// newHTTPClient follows no redirects: the API has none, and a key must not be
// sent to where somebody points.
func newHTTPClient() *http.Client {
	h := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	if t, ok := http.DefaultTransport.(*http.Transport); ok {
		t = t.Clone()
		t.ResponseHeaderTimeout = DefaultTimeout
		h.Transport = t
	}
	return h
}

// bounded is the context of a call that reads its whole answer.
func (c *Client) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if c.timeout <= 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, c.timeout)
}
