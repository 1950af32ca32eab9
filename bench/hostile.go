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

	"github.com/eventhook/eventhook/bench/measure"
)

// hostileTenant attacks. The tenant of the bench is measured.
const hostileTenant = "hostile"

const (
	hostileLength = 4 * time.Second // one measurement
	hostileLead   = time.Second     // between the start of an attack and the measurement
	hostileRate   = 20              // requests per second of each probe
	hostileBound  = 50 * time.Millisecond
)

// hostile is a gateway with the bench's tenant and a hostile tenant.
type hostile struct {
	*publisher
	run                        *run
	key                        string // key of the hostile tenant with all scopes
	readKey                    string // key of the bench's tenant with the scope read
	tenantClient, attackClient *http.Client
}

// attackerDialer connects from a loopback address of its own, so that the gateway
// counts the attacker as another client.
var attackerDialer = &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}

func clientThrough(d *net.Dialer) *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: d.DialContext, MaxIdleConnsPerHost: 512}}
}

// attack is one attack by requests. It has either start or check. start creates the
// resources of the attack and returns its requests. check sends the requests once and
// returns an error unless the gateway refuses them.
type attack struct {
	name  string
	start func(h *hostile, ctx context.Context) (flood, error)
	check func(h *hostile, ctx context.Context) error
}

// hostile runs every attack against a live gateway. During an attack, the p90 of the
// other tenant's requests may be at most twice the p90 without the attack plus 50 ms.
func (r *run) hostile(ctx context.Context) error {
	r.print("hostile: %d attacks by a tenant or a sender; during each, another tenant sends %d webhooks and %d list requests a second, for %s\n",
		len(attacks), hostileRate, hostileRate, hostileLength)
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

// underAttack starts a gateway for one attack, counted from 0, so that no attack
// affects the next measurement.
func (r *run) underAttack(ctx context.Context, n int) error {
	a := attacks[n]
	quiet := *r
	quiet.logLevel = "error" // refusals are expected here
	p, err := quiet.publisher(ctx, "hostile-"+strings.Fields(a.name)[0])
	if err != nil {
		return err
	}
	defer p.stop()
	h := &hostile{publisher: p, run: r, tenantClient: clientThrough(&net.Dialer{}), attackClient: clientThrough(attackerDialer)}
	if err := h.createTenants(ctx); err != nil {
		return err
	}
	if a.check != nil {
		if err := a.check(h, ctx); err != nil {
			return err
		}
		r.print("  %-42s refused, as required\n", a.name)
		return nil
	}
	attacker, err := h.startAttacker(ctx, n)
	if err != nil {
		return err
	}
	defer attacker.stop()
	if _, err := h.probe(ctx, hostileLead); err != nil { // warm-up
		return err
	}
	alone, err := h.probe(ctx, hostileLength)
	if err != nil {
		return err
	}
	const second = 1e6 // microseconds
	cpu, databaseCPU, attackerCPU := h.CPU(), h.databaseCPU(), attacker.CPU()
	if err := attacker.begin(); err != nil {
		return err
	}
	wait(ctx, hostileLead)
	during, err := h.probe(ctx, hostileLength)
	if err != nil {
		return err
	}
	r.print("  %-42s alone %s   during it %s   gateway %.1f CPU s, PostgreSQL %.1f, attackers %.1f; at most %d MB\n", a.name, alone, during,
		(h.CPU()-cpu)/second, (h.databaseCPU()-databaseCPU)/second, (attacker.CPU()-attackerCPU)/second, h.peakMemory()>>20)
	for i, x := range alone.all() {
		bound := 2*x.p90 + hostileBound
		got := during.all()[i]
		r.addRatios(measure.AtMost(fmt.Sprintf("%s: %s, p90 / (2 × alone + 50 ms)", a.name, x.name), float64(got.p90)/float64(bound), 1))
		if got.failed > 0 {
			return fmt.Errorf("%d of the other tenant's requests (%s) were refused", got.failed, x.name)
		}
	}
	return nil
}

// wait waits for a duration, or until ctx ends.
func wait(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// probeResult is the p90 of one kind of request, and the number of failed requests.
type probeResult struct {
	name   string
	p90    time.Duration
	failed int
}

// probeResults are the results of one measurement.
type probeResults struct{ webhook, processed, list probeResult }

func (p probeResults) all() [3]probeResult { return [3]probeResult{p.webhook, p.processed, p.list} }
func (p probeResults) String() string {
	var b strings.Builder
	for i, x := range p.all() {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%s %s", x.name, x.p90.Round(100*time.Microsecond))
	}
	return b.String()
}
