package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"github.com/eventhook/eventhook/internal/egress"
)

// checkTLS checks the certificate and its key.
func (d *doctor) checkTLS(context.Context) {
	const check, day, soon = "TLS certificate", 24 * time.Hour, 14 * 24 * time.Hour
	if !d.config.TLS.IsOn() {
		return
	}
	pair, err := tls.LoadX509KeyPair(d.config.TLS.CertFile, d.config.TLS.KeyFile)
	if err != nil {
		d.fail(check, err.Error(), "Set EVENTHOOK_TLS_CERT_FILE and EVENTHOOK_TLS_KEY_FILE to a certificate and its key in PEM, readable by this user.")
		return
	}
	left := pair.Leaf.NotAfter.Sub(d.now())
	switch ends := pair.Leaf.NotAfter.UTC().Format(time.DateOnly); {
	case left <= 0:
		d.fail(check, "it expired on "+ends, "Renew the certificate; the gateway reads the files again within 10 seconds.")
	case d.now().Before(pair.Leaf.NotBefore):
		d.fail(check, "it is valid from "+pair.Leaf.NotBefore.UTC().Format(time.RFC3339)+" on", "Check the clock, or use another certificate.")
	case left < soon:
		d.warn(check, fmt.Sprintf("it expires on %s, in %d days", ends, int(left/day)), "Renew the certificate.")
	default:
		d.ok(check, "it is valid until %s", ends)
	}
	if u, err := url.Parse(d.config.PublicURL); err == nil && u.Scheme == "https" && pair.Leaf.VerifyHostname(u.Hostname()) != nil {
		d.warn(check, "it is not for the host "+u.Hostname()+" of public_url", "Use a certificate for this host, unless a proxy in front of the gateway has one.")
	}
}

// checkPublicURL checks that senders reach a gateway at the public URL.
func (d *doctor) checkPublicURL(ctx context.Context) {
	const check = "public URL"
	if d.config.PublicURL == "" {
		d.warn(check, "public_url is not set: the URLs of sources name the address of the listener", "Set EVENTHOOK_PUBLIC_URL to the URL at which providers reach the gateway.")
		return
	}
	u, err := url.Parse(d.config.PublicURL)
	if err != nil {
		return // the configuration is invalid
	}
	d.checkScheme(u)
	addresses, err := net.DefaultResolver.LookupHost(ctx, u.Hostname())
	if err != nil {
		d.fail(check, "the host "+u.Hostname()+" cannot be resolved", "Create its DNS record, or correct EVENTHOOK_PUBLIC_URL.")
		return
	}
	there, err := askGateway(ctx, u)
	here, isRunning := d.askLocalGateway(ctx)
	switch {
	case err == nil && isRunning && here != there:
		d.warn(check, fmt.Sprintf("the gateway that answers there is %s, and the gateway on this machine is %s", there, here),
			"Unless an upgrade is in progress or the roles differ, correct EVENTHOOK_PUBLIC_URL, its DNS record or the proxy.")
	case err == nil:
		d.ok(check, "a gateway answers there (%s)", there)
	case isRunning:
		d.fail(check, fmt.Sprintf("a gateway listens on this machine, but %s (%s) does not reach it: %v", u.Redacted(), addresses[0], err),
			"Check the reverse proxy, the load balancer, the firewall and the DNS record.")
	case isOtherProgram(err):
		d.fail(check, fmt.Sprintf("%s (%s): %v", u.Redacted(), addresses[0], err), "Correct EVENTHOOK_PUBLIC_URL, its DNS record or the proxy.")
	default:
		d.skip(check, "no gateway listens on this machine, and none answers at %s (%s): %v; run doctor again while the gateway runs",
			u.Redacted(), addresses[0], err)
	}
}

func (d *doctor) checkScheme(u *url.URL) {
	const check = "public URL"
	isLocal := u.Hostname() == "localhost"
	if ip, err := netip.ParseAddr(u.Hostname()); err == nil {
		isLocal = ip.IsLoopback()
	}
	switch {
	case u.Scheme == "http" && !isLocal:
		d.warn(check, "it begins with http: senders and API keys are not protected on the way", "Use https, with a reverse proxy or EVENTHOOK_TLS_CERT_FILE.")
	case u.Scheme == "https" && !d.config.TLS.IsOn() && len(d.config.TrustedProxies) == 0:
		d.warn("trusted proxies", "a proxy ends TLS, and trusted_proxies is empty: every request seems to come from the proxy",
			"Set EVENTHOOK_TRUSTED_PROXIES to the network of the proxy, so that limits and allowed addresses apply to senders.")
	}
}

// askLocalGateway asks the gateway that listens on this machine. isRunning is false if there is none.
func (d *doctor) askLocalGateway(ctx context.Context) (name string, isRunning bool) {
	host, port, err := net.SplitHostPort(d.config.Listen)
	if err != nil || port == "0" {
		return "", false
	}
	scheme, transport := "http", &http.Transport{DisableKeepAlives: true}
	if d.config.TLS.IsOn() { // its certificate is for another host than the loopback address
		scheme, transport.TLSClientConfig = "https", &tls.Config{InsecureSkipVerify: true} //nolint:gosec // this machine, and no secret is sent
	}
	name, err = ask(ctx, &http.Client{Transport: transport}, &url.URL{Scheme: scheme, Host: net.JoinHostPort(loopbackOf(host), port)})
	return name, err == nil
}

// askGateway asks the gateway at a URL. It sends no key.
func askGateway(ctx context.Context, base *url.URL) (name string, err error) {
	return ask(ctx, &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, base)
}

// ask returns the version of the gateway at a URL, or "without the role api".
func ask(ctx context.Context, client *http.Client, base *url.URL) (name string, err error) {
	const timeout, maxBytes = 5 * time.Second, 16 << 20
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, base.JoinPath("openapi.json").String(), nil)
	if err != nil {
		return "", err
	}
	resp, err := client.Do(r)
	if err != nil {
		if failed, ok := errors.AsType[*url.Error](err); ok {
			err = failed.Err
		}
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	var document struct {
		Info   struct{ Title, Version string }
		Detail string
	}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxBytes))
	if err != nil {
		return "", err
	}
	err = json.Unmarshal(raw, &document)
	switch {
	case err == nil && document.Info.Title == "Eventhook":
		return "version " + document.Info.Version, nil
	case err == nil && resp.StatusCode == http.StatusNotFound && document.Detail == "No operation has this path.":
		return "an instance without the role api", nil
	}
	return "", otherProgramError{resp.StatusCode}
}

// otherProgramError is the error of an answer that is not a gateway's. It has the status.
type otherProgramError struct{ status int }

func (o otherProgramError) Error() string {
	return fmt.Sprintf("another program answers there, with status %d", o.status)
}

// isOtherProgram reports whether another program than a gateway or a proxy without a gateway
// answered.
func isOtherProgram(err error) bool {
	other, ok := errors.AsType[otherProgramError](err)
	return ok && other.status < http.StatusInternalServerError
}

// checkOutbound checks that requests to receivers reach the internet.
func (d *doctor) checkOutbound(ctx context.Context) {
	const check, maxBytes = "outbound network", 64 << 10
	if d.probeURL == "" {
		d.skip(check, "--probe-url is empty")
		return
	}
	client := newClient(d.config)
	defer client.CloseIdleConnections()
	_, err := client.Get(ctx, d.probeURL, maxBytes)
	_, isAnswer := errors.AsType[egress.StatusError](err)
	through := ""
	if d.config.Outbound.Proxy() != nil {
		through = " through the proxy"
	}
	switch {
	case err == nil || isAnswer || errors.Is(err, egress.ErrTooLarge):
		d.ok(check, "%s answers%s", d.probeURL, through)
	default:
		d.warn(check, fmt.Sprintf("%s cannot be reached%s: %v", d.probeURL, through, err),
			"Check DNS, the firewall and EVENTHOOK_OUTBOUND_PROXY_URL; if receivers are only in your own network, give --probe-url a URL there, or an empty one.")
	}
}
