package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The tenants of this part: one does harm, the bench's tenant behaves.
const hostileTenant = "hostile"

const (
	hostileLength = 4 * time.Second // one measurement
	hostileBefore = time.Second     // an attack runs this long before the measurement
	hostilePace   = 20              // requests a second of each probe
	hostileBound  = 50 * time.Millisecond
)

// hostile is a gateway with the bench's tenant and a hostile one.
type hostile struct {
	*publisher
	run               *run
	key               string // of the hostile tenant, with all scopes
	other             string // of the bench's tenant, scope read
	harmless, harmful *http.Client
}

// attackerDialer connects from a loopback address of its own: the gateway's limits
// per client are then those of two clients.
var attackerDialer = &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}

func clientThrough(d *net.Dialer) *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: d.DialContext, MaxIdleConnsPerHost: 512}}
}

// attack is one way to do harm by requests. arm creates the resources of the attack
// and returns the requests. check, instead of arm, makes requests once and fails if
// the gateway lets them do harm.
type attack struct {
	name  string
	arm   func(h *hostile, ctx context.Context) (flooding, error)
	check func(h *hostile, ctx context.Context) error
}

// hostile runs every attack against a live gateway. While an attack runs, the
// p90 of the other tenant's requests may be at most twice the p90 without the
// attack plus 50 ms.
func (r *run) hostile(ctx context.Context) error {
	r.print("hostile: %d attacks by a tenant or a sender; another tenant sends %d webhooks and makes %d list requests a second beside each, for %s\n",
		len(attacks), hostilePace, hostilePace, hostileLength)
	for i, a := range attacks {
		if r.attacks != "" && !slices.Contains(strings.Split(r.attacks, ","), strconv.Itoa(i+1)) {
			continue
		}
		if err := r.underAttack(ctx, i); err != nil {
			return fmt.Errorf("%s: %w", a.name, err)
		}
	}
	return nil
}

// underAttack starts a gateway for one attack, so that no attack lives on in the
// next measurement. The attack is counted from 0.
func (r *run) underAttack(ctx context.Context, n int) error {
	a := attacks[n]
	quiet := *r
	quiet.logLevel = "error" // refusals are what this part is about
	p, err := quiet.publisher(ctx, "hostile-"+strings.Fields(a.name)[0])
	if err != nil {
		return err
	}
	defer p.stop()
	h := &hostile{publisher: p, run: r, harmless: clientThrough(&net.Dialer{}), harmful: clientThrough(attackerDialer)}
	if err := h.prepare(ctx); err != nil {
		return err
	}
	if a.check != nil {
		if err := a.check(h, ctx); err != nil {
			return err
		}
		r.print("  %-42s refused, as it must be\n", a.name)
		return nil
	}
	harm, err := h.startAttacker(ctx, n)
	if err != nil {
		return err
	}
	defer harm.stop()
	if _, err := h.probe(ctx, hostileBefore); err != nil { // warms up
		return err
	}
	alone, err := h.probe(ctx, hostileLength)
	if err != nil {
		return err
	}
	const second = 1e6 // microseconds
	cpu, databaseCPU, attackerCPU := h.cpu(), h.databaseCPU(), harm.cpu()
	if err := harm.begin(); err != nil {
		return err
	}
	wait(ctx, hostileBefore)
	beside, err := h.probe(ctx, hostileLength)
	if err != nil {
		return err
	}
	r.print("  %-42s alone %s   beside it %s   gateway %.1f CPU s, PostgreSQL %.1f, attackers %.1f; at most %d MB\n", a.name, alone, beside,
		(h.cpu()-cpu)/second, (h.databaseCPU()-databaseCPU)/second, (harm.cpu()-attackerCPU)/second, h.peakMemory()>>20)
	for i, x := range alone.all() {
		bound := 2*x.p90 + hostileBound
		got := beside.all()[i]
		r.ratios = append(r.ratios, ratio{fmt.Sprintf("%s: %s, p90 / (2 × alone + 50 ms)", a.name, x.name), float64(got.p90) / float64(bound), 1, true})
		if got.failed > 0 {
			return fmt.Errorf("%d of the other tenant's requests (%s) were refused", got.failed, x.name)
		}
	}
	return nil
}

// wait waits for a time, or until ctx ends.
func wait(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// probed is the p90 of one kind of request, and how many were refused.
type probed struct {
	name   string
	p90    time.Duration
	failed int
}

// probes are those of one measurement.
type probes struct{ webhook, processed, list probed }

func (p probes) all() [3]probed { return [3]probed{p.webhook, p.processed, p.list} }
func (p probes) String() string {
	var b strings.Builder
	for i, x := range p.all() {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%s %s", x.name, x.p90.Round(100*time.Microsecond))
	}
	return b.String()
}
