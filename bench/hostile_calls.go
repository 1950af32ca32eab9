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
	"github.com/eventhook/eventhook/bench/measure"
	"github.com/eventhook/eventhook/ingest"
)

// createTenants creates the hostile tenant and a key for each of the two tenants.
func (h *hostile) createTenants(ctx context.Context) (err error) {
	if err := h.create(ctx, h.publisher.key, "/api/admin/tenants", map[string]any{"slug": hostileTenant, "name": hostileTenant}, nil); err != nil {
		return err
	}
	if h.key, err = h.newKey(ctx, hostileTenant, "read", "manage", "publish", "work"); err != nil {
		return err
	}
	h.readKey, err = h.newKey(ctx, benchTenant, "read")
	return err
}

func (h *hostile) newKey(ctx context.Context, tenant string, scopes ...string) (string, error) {
	var created struct{ Key string }
	err := h.create(ctx, h.publisher.key, "/api/admin/tenants/"+tenant+"/keys", map[string]any{"name": "bench", "scopes": scopes}, &created)
	return created.Key, err
}

// create posts to the API. A response other than a success is an error. answer may be
// nil.
func (h *hostile) create(ctx context.Context, key, path string, body, answer any) error {
	status, got, err := h.do(ctx, h.tenantClient, key, http.MethodPost, path, body)
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

// do calls the API. A []byte body is sent unchanged, other bodies as JSON.
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

// hostilePath returns the path of an operation of the hostile tenant.
func hostilePath(path string) string { return "/api/tenants/" + hostileTenant + "/eventhook" + path }

// callAPI calls the API of the hostile tenant and returns the status.
func (h *hostile) callAPI(ctx context.Context, method, path string, body any) (status int, err error) {
	status, _, err = h.do(ctx, h.attackClient, h.key, method, hostilePath(path), body)
	return status, err
}

// createFirstAccepted creates a resource from the first body that the gateway accepts.
// Limits may refuse all of them.
func (h *hostile) createFirstAccepted(ctx context.Context, path string, bodies ...any) error {
	status := 0
	for _, body := range bodies {
		var err error
		if status, err = h.callAPI(ctx, http.MethodPost, path, body); err != nil || status < http.StatusMultipleChoices {
			return err
		}
	}
	if status == http.StatusUnprocessableEntity {
		return nil // all are refused, so the attack is impossible
	}
	return fmt.Errorf("POST %s: %d", path, status)
}

// flood sends requests until ctx ends. It returns when no request is in flight.
type flood func(ctx context.Context)

// newFlood calls one function from many goroutines. An attack continues after refusals
// and broken connections.
func newFlood(callers int, call func(ctx context.Context)) flood {
	return func(ctx context.Context) {
		var running sync.WaitGroup
		for range callers {
			running.Go(func() {
				for ctx.Err() == nil {
					call(ctx)
				}
			})
		}
		running.Wait()
	}
}

// probe measures the requests of the bench's tenant for some time.
func (h *hostile) probe(ctx context.Context, length time.Duration) (p probeResults, err error) {
	from := eventhook.FirstID[eventhook.Event](time.Now())
	var both sync.WaitGroup
	both.Go(func() { p.webhook = measureEach("webhook", length, func() bool { return h.webhook(ctx) }) })
	both.Go(func() { p.list = measureEach("list", length, func() bool { return h.listEvents(ctx) }) })
	both.Wait()
	if p.webhook.failed > 0 {
		return p, nil
	}
	times, err := h.stats.processingTimes(ctx, from)
	if err != nil {
		return p, err
	}
	const percent = 90
	p.processed = probeResult{name: "processed", p90: measure.Percentile(times, percent)}
	return p, nil
}

// measureEach sends requests at a constant rate, each in a goroutine, so that a slow
// response delays no later request.
func measureEach(name string, length time.Duration, request func() bool) probeResult {
	var mu sync.Mutex
	var requests sync.WaitGroup
	var times []time.Duration
	p := probeResult{name: name}
	tick := time.NewTicker(time.Second / hostileRate)
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
	p.p90 = measure.Percentile(times, percent)
	return p
}

// webhook sends a webhook to the bench's tenant and reports success.
func (h *hostile) webhook(ctx context.Context) bool {
	header := http.Header{
		"Content-Type": {"application/json"}, "X-Github-Event": {"push"}, "X-Github-Delivery": {strconv.FormatUint(serial.Add(1), 16)},
		"X-Hub-Signature-256": {"sha256=" + hex.EncodeToString(sign(body))},
	}
	status, _, err := h.request(ctx, h.tenantClient, http.MethodPost, benchPath, header, body)
	return err == nil && status == http.StatusOK
}

// listEvents lists the newest events of the bench's tenant and reports success.
func (h *hostile) listEvents(ctx context.Context) bool {
	status, _, err := h.do(ctx, h.tenantClient, h.readKey, http.MethodGet, tenantAPI+"/events?limit=10", nil)
	return err == nil && status == http.StatusOK
}

// source creates a source of the hostile tenant.
func (h *hostile) source(ctx context.Context, slug string, verifier map[string]any) error {
	return h.createFirstAccepted(ctx, "/sources", map[string]any{"slug": slug, "name": slug, "verifier": verifier, "rate_limit": unlimited,
		"max_body_bytes": 32 << 20})
}

var unlimited = map[string]any{"requests_per_second": 1_000_000, "requests_per_minute": 60_000_000, "burst_size": 1_000_000}

// plainHMAC returns a verifier with the bench's secret over the body.
func plainHMAC(more map[string]any) map[string]any {
	v := map[string]any{"type": "hmac", "header": "X-Signature", "encoding": "hex", "secrets": []string{secret}}
	for key, value := range more {
		v[key] = value
	}
	return v
}

// unsigned stands for no signature.
const unsigned = ""

// signatureOf signs a body. Attackers call it once for each body to save processor
// time.
func signatureOf(body []byte) string { return hex.EncodeToString(sign(body)) }

// post sends a body to a source of the hostile tenant. more are names and values of
// headers.
func (h *hostile) post(ctx context.Context, source string, body []byte, signature string, more ...string) (status int, answer []byte, err error) {
	header := http.Header{"Content-Type": {"application/json"}}
	if signature != unsigned {
		header.Set("X-Signature", signature)
	}
	for i := 0; i+1 < len(more); i += 2 {
		header.Set(more[i], more[i+1])
	}
	return h.request(ctx, h.attackClient, http.MethodPost, ingest.Path(hostileTenant, source), header, body)
}

// peakMemory returns the maximum memory of the gateway process in bytes, or 0 if the
// system does not report it.
func (h *hostile) peakMemory() int {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", h.PID()))
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
