package main

import (
	"context"
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
	"github.com/eventhook/eventhook/route"
	"github.com/eventhook/eventhook/targets"
	"github.com/eventhook/eventhook/verify"
)

// outside is how the gateway asks addresses that others choose: published keys
// and confirmations, over https alone, and the receivers of deliveries. These addresses
// are public, or allowed by configuration.
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

// compileTarget makes a configured target for the routes.
func (o outside) compileTarget(t eventhook.Target) (route.Effector, error) {
	return targets.New(t, targets.Deps{})
}

// tryTarget compiles a target of a route that is tried out. The answer says at once
// that a request to its address would be refused. Deliveries are retried instead, since
// the configuration may allow the address later.
func (o outside) tryTarget(t eventhook.Target) (route.Effector, error) {
	return targets.New(t, targets.Deps{CheckHost: o.client.CheckHost})
}

// keys caches the keys that providers publish. A failure is logged here, as
// often as it is tried: requests only hear that there is no key.
func (o outside) keys() *keyset.Cache {
	const documents, most = 1000, 256 << 10
	return keyset.New(documents, time.Now, func(ctx context.Context, url string) ([]byte, time.Duration, error) {
		d, err := o.client.Get(ctx, url, most)
		if err != nil {
			o.log.Warn("published keys could not be fetched", "url", url, "error", err)
		}
		return d.Body, d.MaxAge, absent(err)
	})
}

// absent is err as one of KindNotFound, if the answer was that there is no such
// document. Storage answers 403 for a file that it does not have.
func absent(err error) error {
	status, _ := errors.AsType[egress.StatusError](err)
	switch int(status) {
	case http.StatusForbidden, http.StatusNotFound, http.StatusGone:
		return &eventhook.Error{Kind: eventhook.KindNotFound, Message: err.Error(), Cause: err}
	}
	return err
}

// confirm asks a URL and wants nothing but that it is answered 200.
func (o outside) confirm(ctx context.Context, url string) error {
	const most = 64 << 10
	_, err := o.client.Get(ctx, url, most)
	return err
}

// publishedKeys caches the keys that providers publish, for a command without a
// configuration.
func publishedKeys(stderr io.Writer) verify.Keys {
	return newOutside(configs.Config{}, telemetry.NewLogger(stderr, "warn", "text")).keys()
}
