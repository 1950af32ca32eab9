// Package certfile reads TLS certificates from files, and replaces them when the content of the
// files changes: the certificate of a server or a client, and trusted authorities. A replacement
// that is broken, or whose key does not fit, is logged once, and the former certificate stays. The
// files are compared by content, since tools replace them by links, with old times, and one after
// the other.
package certfile

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"time"
)

// Files are the names of the files: PEM, the certificate with its intermediate certificates, and
// its key.
type Files struct{ Cert, Key string }

// Pair is a certificate with its key. Safe for concurrent use.
type Pair struct {
	files watched[tls.Certificate]
	log   *slog.Logger
	now   func() time.Time
}

// Load reads the files. The error names the file at fault and contains no key.
func Load(files Files, log *slog.Logger, now func() time.Time) (*Pair, error) {
	p := &Pair{log: log, now: now}
	p.files.names = []string{files.Cert, files.Key}
	p.files.parse = func(contents [][]byte) (*tls.Certificate, error) {
		pair, err := tls.X509KeyPair(contents[0], contents[1]) // sets Leaf
		if err != nil {
			return nil, fmt.Errorf("certificate %s with key %s: %w", files.Cert, files.Key, err)
		}
		return &pair, nil
	}
	if _, err := p.files.read(); err != nil {
		return nil, err
	}
	p.warnIfExpired()
	return p, nil
}

// Config returns the configuration of a server, with TLS 1.2 or newer and HTTP/2.
func (p *Pair) Config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return p.Current(), nil }}
}

// Current returns the certificate in use. It must not be changed.
func (p *Pair) Current() *tls.Certificate { return p.files.current.Load() }

// ExpiresAt returns when the certificate in use expires.
func (p *Pair) ExpiresAt() time.Time { return p.Current().Leaf.NotAfter }

// Watch calls Reload at each interval until ctx ends.
func (p *Pair) Watch(ctx context.Context, interval time.Duration) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			p.Reload()
		}
	}
}

// Reload reads the files and, if their content has changed, uses the new certificate for new
// connections. If it cannot be used, Reload logs an error, once until the error changes.
func (p *Pair) Reload() {
	isNew, err := p.files.reload()
	if err != nil {
		p.log.Error("the TLS certificate cannot be replaced; the former one stays in use", "error", err, "expires_at", p.ExpiresAt())
	}
	if isNew {
		p.log.Info("the TLS certificate was replaced", "file", p.files.names[0], "expires_at", p.ExpiresAt())
		p.warnIfExpired()
	}
}

func (p *Pair) warnIfExpired() {
	if at := p.ExpiresAt(); !p.now().Before(at) {
		p.log.Warn("the TLS certificate has expired; it is refused", "file", p.files.names[0], "expires_at", at)
	}
}
