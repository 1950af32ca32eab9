package agent

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/backoff"
	"github.com/eventhook/eventhook/internal/certfile"
)

// reloadInterval is how often the files of certificates are compared.
const reloadInterval = 10 * time.Second

// certificates are the files of a Config. Either of them may be nil.
type certificates struct {
	own         *certfile.Pair
	authorities *certfile.Authorities
}

func loadCertificates(c Config, log *slog.Logger) (all certificates, err error) {
	if c.CertFile != "" {
		if all.own, err = certfile.Load(certfile.Files{Cert: c.CertFile, Key: c.KeyFile}, log, time.Now); err != nil {
			return all, fmt.Errorf("--client-cert and --client-key: %w", err)
		}
	}
	if c.CAFile != "" {
		if all.authorities, err = certfile.LoadAuthorities(c.CAFile, log); err != nil {
			return all, fmt.Errorf("--ca-file: %w", err)
		}
	}
	return all, nil
}

func (c certificates) current() (m material) {
	if c.own != nil {
		m.certificate = c.own.Current()
	}
	if c.authorities != nil {
		m.authorities = c.authorities.Current()
	}
	return m
}

// watch calls reload at each interval until ctx ends.
func (c certificates) watch(ctx context.Context, use func(material)) {
	if c.own == nil && c.authorities == nil {
		return
	}
	for backoff.Sleep(ctx, reloadInterval) {
		c.reload(use)
	}
}

// reload reads the files, and calls use if their content is new.
func (c certificates) reload(use func(material)) {
	before := c.current()
	if c.own != nil {
		c.own.Reload()
	}
	if c.authorities != nil {
		c.authorities.Reload()
	}
	if now := c.current(); now != before {
		use(now)
	}
}

// gatewayTransport sends requests to the gateway. It uses the proxy of the environment.
type gatewayTransport struct {
	current     atomic.Pointer[http.Transport]
	connections int           // to keep
	wait        time.Duration // of a claim
}

func (t *gatewayTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	return t.current.Load().RoundTrip(r)
}

// use makes new connections trust the authorities of m.
func (t *gatewayTransport) use(m material) {
	const handshake, answer, idle, ping = 10 * time.Second, 15 * time.Second, 90 * time.Second, 15 * time.Second
	previous := t.current.Swap(&http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		ForceAttemptHTTP2:     true,
		TLSClientConfig:       &tls.Config{RootCAs: m.authorities, MinVersion: tls.VersionTLS12},
		MaxIdleConnsPerHost:   t.connections,
		IdleConnTimeout:       idle,
		TLSHandshakeTimeout:   handshake,
		ResponseHeaderTimeout: t.wait + answer,
		HTTP2:                 &http.HTTP2Config{SendPingTimeout: ping, PingTimeout: ping},
	})
	if previous != nil {
		previous.CloseIdleConnections()
	}
}

// newClient returns the client of the gateway. The key is in a closure of the client only.
func (t *gatewayTransport) newClient(c Config, key string) (*client.Client, error) {
	return client.New(c.Server, key, client.WithUserAgent("eventhook-agent/"+c.Version), client.WithTimeout(0),
		client.WithHTTPClient(&http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}))
}
