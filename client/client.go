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

// DefaultTimeout is the default timeout of a call. It is longer than the longest wait of any
// operation of the API.
const DefaultTimeout = 90 * time.Second

// DefaultUserAgent is the default User-Agent of requests.
const DefaultUserAgent = "eventhook-client"

// Client calls the API of one gateway with one key. Create it with New. It is safe for
// concurrent use by multiple goroutines.
type Client struct {
	server    *url.URL
	authorize func(http.Header) // a closure over the key, so that %+v does not print it
	http      *http.Client
	userAgent string
	timeout   time.Duration
}

// Option configures a Client.
type Option func(*Client)

// WithHTTPClient sets the HTTP client. The default client follows no redirects, and waits for
// the header of a response for at most DefaultTimeout.
func WithHTTPClient(h *http.Client) Option { return func(c *Client) { c.http = h } }

// WithUserAgent sets the User-Agent of requests. The default is DefaultUserAgent.
func WithUserAgent(name string) Option { return func(c *Client) { c.userAgent = name } }

// WithTimeout limits the duration of each call, including reading the body of the response. The
// default is DefaultTimeout; 0 means no timeout. The timeout does not apply to methods that
// return an *http.Response, nor to Watch.
func WithTimeout(d time.Duration) Option { return func(c *Client) { c.timeout = d } }

// New returns a client for the gateway at the URL server, for example
// https://hooks.example.com. The key is a key of a tenant or the admin key. New makes no
// connection. No error of New or of a call contains the key.
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

// newHTTPClient returns a client that follows no redirects. The API has no redirects, and the key
// must be sent to the configured server only.
func newHTTPClient() *http.Client {
	h := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	if t, ok := http.DefaultTransport.(*http.Transport); ok {
		t = t.Clone()
		t.ResponseHeaderTimeout = DefaultTimeout
		h.Transport = t
	}
	return h
}

// withTimeout returns the context of a call that reads the whole response.
func (c *Client) withTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	if c.timeout <= 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, c.timeout)
}
