package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/configs"
	"github.com/eventhook/eventhook/internal/egress"
	"github.com/eventhook/eventhook/internal/keyset"
	"github.com/eventhook/eventhook/internal/telemetry"
	"github.com/eventhook/eventhook/outbound/auth"
	"github.com/eventhook/eventhook/route"
	"github.com/eventhook/eventhook/targets"
	"github.com/eventhook/eventhook/verify"
)

// outside sends the requests of the gateway to URLs that tenants or senders choose:
// published keys and confirmations, over https only, and deliveries. A URL must have
// a public address or one that the configuration allows.
type outside struct {
	client *egress.Client
	log    *slog.Logger
}

func newOutside(c configs.Config, log *slog.Logger) outside {
	return outside{newClient(c), log}
}

func newClient(c configs.Config) *egress.Client {
	client := egress.New(egress.Policy{AllowPrivate: c.Outbound.AllowPrivateNetworks, AllowedCIDRs: c.Outbound.Prefixes(), Proxy: c.Outbound.Proxy()})
	client.UserAgent = "eventhook/" + version
	return client
}

// authenticator returns the authentication of deliveries. Its requests follow the same
// address policy.
func (o outside) authenticator() *auth.Clients {
	return auth.New(auth.Deps{Client: o.client, Now: now,
		WithCertificate: func(c tls.Certificate, authorities *x509.CertPool) auth.TLSClient {
			return o.client.WithCertificate(c, authorities)
		}})
}

// compileTarget compiles a target of a route.
func (o outside) compileTarget(t eventhook.Target) (route.Effector, error) {
	return targets.New(t, targets.Deps{})
}

// compileTestTarget compiles a target of a route that a user tests. The test fails
// if the gateway would not connect to the address of the target. For events, the
// delivery is retried instead, since the configuration may allow the address later.
func (o outside) compileTestTarget(t eventhook.Target) (route.Effector, error) {
	return targets.New(t, targets.Deps{CheckHost: o.client.CheckHost})
}

// keys returns a cache of the keys that providers publish. A failed fetch is logged
// here, because the verification only reports that the key is missing.
func (o outside) keys() *keyset.Cache {
	const maxDocuments, maxBytes = 1000, 256 << 10
	return keyset.New(maxDocuments, now, func(ctx context.Context, url string) ([]byte, time.Duration, error) {
		d, err := o.client.Get(ctx, url, maxBytes)
		if err != nil {
			o.log.Warn("cannot fetch published keys", "url", url, "error", err)
		}
		return d.Body, d.MaxAge, asNotFound(err)
	})
}

// asNotFound returns err as an error of KindNotFound if the answer means that the
// document does not exist. Object stores answer 403 for a file that does not exist.
func asNotFound(err error) error {
	status, _ := errors.AsType[egress.StatusError](err)
	switch int(status) {
	case http.StatusForbidden, http.StatusNotFound, http.StatusGone:
		return &eventhook.Error{Kind: eventhook.KindNotFound, Message: err.Error(), Cause: err}
	}
	return err
}

// confirm requests a URL and succeeds if the answer is 200.
func (o outside) confirm(ctx context.Context, url string) error {
	const maxBytes = 64 << 10
	_, err := o.client.Get(ctx, url, maxBytes)
	return err
}

// publishedKeys returns the cache of keys for a command that has no configuration.
func publishedKeys(stderr io.Writer) verify.Keys {
	return newOutside(configs.Config{}, telemetry.NewLogger(stderr, "warn", "text")).keys()
}
