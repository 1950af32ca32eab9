package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/ingest"
)

// prepare creates the hostile tenant and a key for each of the two.
func (h *hostile) prepare(ctx context.Context) (err error) {
	if err := h.create(ctx, h.publisher.key, "/api/admin/tenants", map[string]any{"slug": hostileTenant, "name": hostileTenant}, nil); err != nil {
		return err
	}
	if h.key, err = h.newKey(ctx, hostileTenant, "read", "manage", "publish", "work"); err != nil {
		return err
	}
	h.other, err = h.newKey(ctx, benchTenant, "read")
	return err
}

func (h *hostile) newKey(ctx context.Context, tenant string, scopes ...string) (string, error) {
	var created struct{ Key string }
	err := h.create(ctx, h.publisher.key, "/api/admin/tenants/"+tenant+"/keys", map[string]any{"name": "bench", "scopes": scopes}, &created)
	return created.Key, err
}

// create posts to the API and fails unless the answer is a success. answer may be nil.
func (h *hostile) create(ctx context.Context, key, path string, body, answer any) error {
	status, got, err := h.do(ctx, h.harmless, key, http.MethodPost, path, body)
	switch {
	case err != nil:
		return err
	case status >= http.StatusMultipleChoices:
		return fmt.Errorf("POST %s: %d %s", path, status, eventhook.Truncate(string(got), 500))
	case answer == nil:
		return nil
	}
	return json.Unmarshal(got, answer)
}

// do calls the API with a JSON body, or with bytes as they are.
func (h *hostile) do(ctx context.Context, from *http.Client, key, method, path string, body any) (status int, answer []byte, err error) {
	raw, isRaw := body.([]byte)
	if !isRaw && body != nil {
		if raw, err = json.Marshal(body); err != nil {
			return 0, nil, err
		}
	}
	header := http.Header{"Authorization": {"Bearer " + key}, "Content-Type": {"application/json"}}
	return h.request(ctx, from, method, path, header, raw)
}

func (h *hostile) request(ctx context.Context, from *http.Client, method, path string, header http.Header, body []byte) (status int, answer []byte, err error) {
	r, err := http.NewRequestWithContext(ctx, method, "http://"+h.to.address+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	r.Header = header
	got, err := from.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = got.Body.Close() }()
	answer, err = io.ReadAll(got.Body)
	return got.StatusCode, answer, err
}

// own is a path of the hostile tenant's API.
func own(path string) string { return "/api/tenants/" + hostileTenant + "/eventhook" + path }

// manage calls the hostile tenant's API and returns the status.
func (h *hostile) manage(ctx context.Context, method, path string, body any) (status int, err error) {
	status, _, err = h.do(ctx, h.harmful, h.key, method, own(path), body)
	return status, err
}

// strongest creates a thing from the first of some bodies that the gateway takes.
// Limits may refuse the others.
func (h *hostile) strongest(ctx context.Context, path string, bodies ...any) error {
	status := 0
	for _, body := range bodies {
		var err error
		if status, err = h.manage(ctx, http.MethodPost, path, body); err != nil || status < http.StatusMultipleChoices {
			return err
		}
	}
	if status == http.StatusUnprocessableEntity {
		return nil // all are refused: nothing is left of the attack
	}
	return fmt.Errorf("POST %s: %d", path, status)
}

// flooding sends requests until ctx ends, and returns when none is under way.
type flooding func(ctx context.Context)

// flood calls one function from many goroutines. An attack goes on after refusals
// and broken connections.
func flood(width int, call func(ctx context.Context)) flooding {
	return func(ctx context.Context) {
		var callers sync.WaitGroup
		for range width {
			callers.Go(func() {
				for ctx.Err() == nil {
					call(ctx)
				}
			})
		}
		callers.Wait()
	}
}

// probe measures the other tenant's requests for a time.
func (h *hostile) probe(ctx context.Context, length time.Duration) (p probes, err error) {
	from := eventhook.FirstID[eventhook.Event](time.Now())
	var both sync.WaitGroup
	both.Go(func() { p.webhook = measureEach("webhook", length, func() bool { return h.webhook(ctx) }) })
	both.Go(func() { p.list = measureEach("list", length, func() bool { return h.lists(ctx) }) })
	both.Wait()
	if p.webhook.failed > 0 {
		return p, nil
	}
	times, err := h.stats.processed(ctx, from)
	if err != nil {
		return p, err
	}
	const percent = 90
	p.processed = probed{name: "processed", p90: percentile(times, percent)}
	return p, nil
}

// measureEach makes requests at the probes' pace, each in a goroutine of its own,
// so that a slow answer delays no later request.
func measureEach(name string, length time.Duration, request func() bool) probed {
	var mu sync.Mutex
	var requests sync.WaitGroup
	var times []time.Duration
	p := probed{name: name}
	tick := time.NewTicker(time.Second / hostilePace)
	defer tick.Stop()
	for end := time.Now().Add(length); time.Now().Before(end); <-tick.C {
		requests.Go(func() {
			began := time.Now()
			ok := request()
			mu.Lock()
			defer mu.Unlock()
			times = append(times, time.Since(began))
			if !ok {
				p.failed++
			}
		})
	}
	requests.Wait()
	const percent = 90
	p.p90 = percentile(times, percent)
	return p
}

// webhook sends a webhook of the bench's tenant.
func (h *hostile) webhook(ctx context.Context) bool {
	header := http.Header{
		"Content-Type": {"application/json"}, "X-Github-Event": {"push"}, "X-Github-Delivery": {strconv.FormatUint(serial.Add(1), 16)},
		"X-Hub-Signature-256": {"sha256=" + hex.EncodeToString(sign(body))},
	}
	status, _, err := h.request(ctx, h.harmless, http.MethodPost, benchPath, header, body)
	return err == nil && status == http.StatusOK
}

// lists reads the newest events of the bench's tenant.
func (h *hostile) lists(ctx context.Context) bool {
	status, _, err := h.do(ctx, h.harmless, h.other, http.MethodGet, tenantAPI+"/events?limit=10", nil)
	return err == nil && status == http.StatusOK
}

// source creates a source of the hostile tenant.
func (h *hostile) source(ctx context.Context, slug string, verifier map[string]any) error {
	return h.strongest(ctx, "/sources", map[string]any{"slug": slug, "name": slug, "verifier": verifier, "rate_limit": unlimited,
		"max_body_bytes": 32 << 20})
}

var unlimited = map[string]any{"requests_per_second": 1_000_000, "requests_per_minute": 60_000_000, "burst_size": 1_000_000}

// plainHMAC is a verifier with the bench's secret over the body.
func plainHMAC(more map[string]any) map[string]any {
	v := map[string]any{"type": "hmac", "header": "X-Signature", "encoding": "hex", "secrets": []string{secret}}
	for key, value := range more {
		v[key] = value
	}
	return v
}

// unsigned is the signature of a body that has none.
const unsigned = ""

// signatureOf is computed once for each body: an attacker's processor time would be
// missing on this machine.
func signatureOf(body []byte) string { return hex.EncodeToString(sign(body)) }

// post sends a body to a source of the hostile tenant, with its signature or unsigned.
func (h *hostile) post(ctx context.Context, source string, body []byte, signature string, more ...string) (status int, answer []byte, err error) {
	header := http.Header{"Content-Type": {"application/json"}}
	if signature != unsigned {
		header.Set("X-Signature", signature)
	}
	for i := 0; i+1 < len(more); i += 2 {
		header.Set(more[i], more[i+1])
	}
	return h.request(ctx, h.harmful, http.MethodPost, ingest.Path(hostileTenant, source), header, body)
}

// peakMemory is the most memory that the gateway's process has held, in bytes; 0
// where the system does not tell.
func (h *hostile) peakMemory() int {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", h.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(raw), "VmHWM:")
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return 0
	}
	kilobytes, _ := strconv.Atoi(fields[0])
	return kilobytes << 10
}
