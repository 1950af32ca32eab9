package agent

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventhook/eventhook/client"
)

func TestDeliveriesAreSentAsTheyAreAndReported(t *testing.T) {
	runTest(t, nil, func(h *harness) {
		h.handle = func(r *http.Request) (int, http.Header, string, error) {
			return 503, http.Header{"Retry-After": {"120"}}, "busy\xff" + strings.Repeat("x", 5000), sleep(r, 250*time.Millisecond)
		}
		d := h.add("http://ci.internal/hooks?a=b")
		h.start()
		r := h.waitForResult(t, d)
		if *r.StatusCode != 503 || r.Error != nil || r.DurationMs != 250 || *r.RetryAfterSeconds != 120 {
			t.Errorf("got the result %+v, want 503 after 250 ms with a retry after 120 s", r)
		}
		if log := h.log.text(); !strings.Contains(log, "trace_id=0af7651916cd43dd8448eb211c80319c") {
			t.Errorf("the log does not have the delivery's trace:\n%s", log)
		}
		if got := *r.ResponseExcerpt; !strings.HasPrefix(got, "busy\uFFFDxxx") || len(got) > 1100 {
			t.Errorf("got an excerpt of %d bytes, want the valid beginning", len(got))
		}
		sent := h.requests[0]
		body, _ := io.ReadAll(sent.Body)
		if sent.Method != "POST" || sent.URL.String() != d.URL || string(body) != "body of d1" || sent.Header.Get("Webhook-Signature") != "v1,abc" || sent.ContentLength != 10 {
			t.Errorf("got the request %s %s %v %q, want that of the delivery", sent.Method, sent.URL, sent.Header, body)
		}
		h.stopAndWait()
	})
}

type classError struct{ error }

func (classError) Class() string { return "connect" }

func TestErrorsHaveTheirClasses(t *testing.T) {
	for _, c := range []struct {
		claim, url  string
		status      int
		err         error
		class, text string
	}{
		{"an error with a class", "http://ci", 0, classError{errors.New("ci refused the connection")}, "connect", "ci refused the connection"},
		{"another error", "http://ci", 0, errors.New("broken"), "closed", "broken"},
		{"an unusual status", "http://ci", 700, nil, "closed", "a status above 599"},
		{"an invalid URL", "http://ci:port/hush", 0, nil, "blocked", "not valid"},
	} {
		t.Run(c.claim, func(t *testing.T) {
			runTest(t, nil, func(h *harness) {
				h.handle = func(*http.Request) (int, http.Header, string, error) { return c.status, nil, "", c.err }
				d := h.add(c.url)
				h.start()
				r := h.waitForResult(t, d)
				if r.StatusCode != nil || string(*r.ErrorClass) != c.class || !strings.Contains(*r.Error, c.text) || strings.Contains(*r.Error, "hush") {
					t.Errorf("got %v %q, want the class %s and %q", r.StatusCode, *r.Error, c.class, c.text)
				}
				h.stopAndWait()
			})
		})
	}
}

func TestConcurrencyIsBounded(t *testing.T) {
	runTest(t, func(c *Config) { c.Concurrency = 7 }, func(h *harness) {
		h.handle = answering(200, time.Second)
		h.setFault(func(_ http.ResponseWriter, r *http.Request) bool {
			if strings.HasSuffix(r.URL.Path, "/results") {
				time.Sleep(5 * time.Millisecond) // meanwhile other results arrive
			}
			return false
		})
		var last *fakeDelivery
		for range 100 {
			last = h.add("http://ci")
		}
		h.start()
		h.waitForResult(t, last)
		h.stopAndWait()
		if h.max != 7 {
			t.Errorf("got %d requests at once, want 7", h.max)
		}
		for _, d := range h.deliveries {
			if d.result == nil || d.leases != 1 {
				t.Errorf("%s has %d leases and the result %v, want one of each", d.ID, d.leases, d.result)
			}
		}
		if h.gateway.reports > 50 {
			t.Errorf("got %d reports of 100 results, want batches", h.gateway.reports)
		}
	})
}

// The slots of a waiting claim are free: only requests count as running.
func TestRunningCountsRequests(t *testing.T) {
	runTest(t, nil, func(h *harness) {
		h.handle = answering(200, time.Minute)
		h.start()
		time.Sleep(time.Second)
		synctest.Wait()
		if got := h.metric(t, "running"); got != "0" {
			t.Errorf("an idle agent: got %s running requests, want 0", got)
		}
		d := h.add("http://ci")
		time.Sleep(time.Second)
		synctest.Wait()
		if got := h.metric(t, "running"); got != "1" {
			t.Errorf("during a request: got %s running requests, want 1", got)
		}
		h.waitForResult(t, d)
		synctest.Wait()
		if got := h.metric(t, "running"); got != "0" {
			t.Errorf("after the request: got %s running requests, want 0", got)
		}
		h.stopAndWait()
	})
}

func TestAnIdleAgentWaitsAtTheGateway(t *testing.T) {
	runTest(t, nil, func(h *harness) {
		h.start()
		time.Sleep(time.Hour + time.Second)
		synctest.Wait()
		h.gateway.mu.Lock()
		got := len(h.claims)
		h.gateway.mu.Unlock()
		if got != 122 { // the first one does not wait
			t.Errorf("got %d claims in an hour, want one each 30 s", got)
		}
		if first, next := h.claims[0], h.claims[1]; first.wait != 0 || next.wait != 30 || next.max != 10 || next.lease != 120 {
			t.Errorf("got the claims %+v and %+v, want a first one without a wait, and then 30 s", first, next)
		}
		began := time.Now()
		d := h.add("http://ci")
		h.waitForResult(t, d)
		if took := time.Since(began); took != 0 {
			t.Errorf("a delivery waits %s, want to be claimed at once", took)
		}
		if took := h.stopAndWait(); took != 0 {
			t.Errorf("an idle agent stops in %s, want at once", took)
		}
	})
}

// Each kind of failing gateway gets few claims, and the agent continues when it recovers.
func TestAFailingGatewayIsNotCalledInALoop(t *testing.T) {
	for claim, c := range map[string]struct {
		fault func(w http.ResponseWriter, r *http.Request) bool
		most  int // claims in an hour
	}{
		"unreachable": {func(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) }, 250},
		"500":         {func(w http.ResponseWriter, _ *http.Request) bool { problem(w, 500); return true }, 250},
		"not JSON":    {func(w http.ResponseWriter, _ *http.Request) bool { _, _ = io.WriteString(w, "<html>"); return true }, 250},
		"429": {func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Retry-After", "300")
			problem(w, 429)
			return true
		}, 13},
		"empty at once": {func(w http.ResponseWriter, _ *http.Request) bool {
			answer(w, map[string]any{"items": []string{}})
			return true
		}, 250},
	} {
		t.Run(claim, func(t *testing.T) {
			runTest(t, nil, func(h *harness) {
				calls := 0
				h.setFault(func(w http.ResponseWriter, r *http.Request) bool {
					h.gateway.mu.Lock()
					calls++
					h.gateway.mu.Unlock()
					return c.fault(w, r)
				})
				h.start()
				time.Sleep(time.Hour)
				synctest.Wait()
				h.gateway.mu.Lock()
				got := calls
				h.gateway.mu.Unlock()
				if got < 5 || got > c.most {
					t.Errorf("got %d claims in an hour, want up to %d", got, c.most)
				}
				if lines := strings.Count(h.log.text(), "cannot claim deliveries"); lines > 13 {
					t.Errorf("the log has %d lines about the outage of an hour, want one each 5 minutes", lines)
				}
				h.setFault(nil)
				d := h.add("http://ci")
				h.waitForResult(t, d)
				h.stopAndWait()
			})
		})
	}
}

func TestARejectedAgentEndsAfterItsRequests(t *testing.T) {
	for status, want := range map[int]string{401: "the key is not valid", 403: "not the key of an agent", 404: `no access to the tenant "acme"`, 422: "rejected the claim"} {
		runTest(t, nil, func(h *harness) {
			h.handle = answering(200, 10*time.Second)
			d := h.add("http://ci")
			h.start()
			synctest.Wait()
			h.setFault(func(w http.ResponseWriter, r *http.Request) bool {
				isClaim := strings.HasSuffix(r.URL.Path, "/claim")
				if isClaim {
					problem(w, status)
				}
				return isClaim
			})
			err := <-h.ended
			if err == nil || !strings.Contains(err.Error(), want) || client.StatusOf(err) != status {
				t.Errorf("%d: Run returned %v, want %q", status, err, want)
			}
			if h.result(d) == nil {
				t.Errorf("%d: the running request has no result", status)
			}
		})
	}
}

func TestAStoppingAgentFinishesItsRequests(t *testing.T) {
	runTest(t, nil, func(h *harness) {
		h.handle = func(r *http.Request) (int, http.Header, string, error) {
			seconds := map[string]time.Duration{"fast": 5 * time.Second, "slow": time.Minute}[r.URL.Host]
			return 200, nil, "", sleep(r, seconds)
		}
		fast, slow := h.add("http://fast"), h.add("http://slow")
		h.start()
		synctest.Wait()
		h.stop()
		synctest.Wait()
		late := h.add("http://fast")
		if got := h.agent.state.health(time.Now()).Status; got != healthStopping {
			t.Errorf("the health is %s, want stopping", got)
		}
		if took := h.stopAndWait(); took != 20*time.Second {
			t.Errorf("the agent stopped after %s, want 20 s", took)
		}
		if h.result(fast) == nil || h.result(slow) != nil || late.leases != 0 {
			t.Errorf("got the results %v and %v and %d leases of a late delivery, want the fast one only", fast.result, slow.result, late.leases)
		}
		if log := h.log.text(); !strings.Contains(log, "reported=1 unreported=1") {
			t.Errorf("the log does not say what was answered:\n%s", log)
		}
	})
}

func TestResultsAreRetriedUntilTheLeaseEnds(t *testing.T) {
	for _, c := range []struct {
		claim  string
		outage time.Duration
		leases int
	}{{"a short outage", time.Minute, 1}, {"an outage longer than the lease", 3 * time.Minute, 2}} {
		t.Run(c.claim, func(t *testing.T) {
			runTest(t, nil, func(h *harness) {
				d := h.add("http://ci")
				end := time.Now().Add(c.outage)
				h.setFault(func(_ http.ResponseWriter, r *http.Request) bool {
					if strings.HasSuffix(r.URL.Path, "/results") && time.Now().Before(end) {
						panic(http.ErrAbortHandler)
					}
					return false
				})
				h.start()
				h.waitForResult(t, d)
				if d.leases != c.leases || len(h.requests) != c.leases {
					t.Errorf("got %d leases and %d requests, want %d\n%s", d.leases, len(h.requests), c.leases, h.log.text())
				}
				h.stopAndWait()
			})
		})
	}
}

// A result that the gateway finds invalid does not stop the other results of its call.
func TestAnInvalidResultDoesNotStopOthers(t *testing.T) {
	runTest(t, nil, func(h *harness) {
		h.handle = func(r *http.Request) (int, http.Header, string, error) { // the bad one during the first report
			return 200, nil, "", sleep(r, map[string]time.Duration{"ci": time.Second, "bad": time.Second + time.Millisecond}[r.URL.Host])
		}
		h.setFault(func(w http.ResponseWriter, r *http.Request) bool {
			if strings.HasSuffix(r.URL.Path, "/results") {
				time.Sleep(5 * time.Millisecond)
			}
			raw, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(raw))
			isInvalid := bytes.Contains(raw, []byte(`"d1"`)) || strings.Contains(r.URL.Path, "/d1/")
			if isInvalid {
				problem(w, 422)
			}
			return isInvalid
		})
		bad := h.add("http://bad")
		var others []*fakeDelivery
		for range 4 {
			others = append(others, h.add("http://ci"))
		}
		h.start()
		for _, d := range others {
			if h.waitForResult(t, d); d.leases != 1 {
				t.Errorf("%s is stored after %d leases, want 1", d.ID, d.leases)
			}
		}
		if h.result(bad) != nil {
			t.Error("the invalid result was stored")
		}
		h.stopAndWait()
	})
}

func TestALostLeaseIsNotReportedAgain(t *testing.T) {
	runTest(t, nil, func(h *harness) {
		h.handle = answering(200, time.Second)
		d := h.add("http://ci")
		h.start()
		synctest.Wait()
		h.gateway.mu.Lock()
		d.LeaseToken, d.due = d.LeaseToken+1, time.Time{} // another agent has it
		h.gateway.mu.Unlock()
		time.Sleep(time.Hour)
		synctest.Wait()
		if h.gateway.reports != 1 || !strings.Contains(h.log.text(), "the lease is lost") {
			t.Errorf("got %d reports, want 1\n%s", h.gateway.reports, h.log.text())
		}
		h.stopAndWait()
	})
}

// A request ends before its lease, counted from before the claim, so that its result is in time.
func TestARequestEndsBeforeItsLease(t *testing.T) {
	runTest(t, func(c *Config) { c.Lease = 20 * time.Second }, func(h *harness) {
		h.handle = answering(200, time.Hour)
		h.start()
		time.Sleep(12 * time.Second) // a claim waits for 5 s
		began := time.Now()
		d := h.add("http://ci")
		h.waitForResult(t, d)
		if took := time.Since(began); took != 17*time.Second || d.leases != 1 { // claimed 2 s after the claim was sent
			t.Errorf("the request took %s with %d leases, want 17 s", took, d.leases)
		}
		h.stopAndWait()
	})
}

// A delivery of a killed agent costs one lease.
func TestADeliveryOfAKilledAgentGoesToAnother(t *testing.T) {
	runTest(t, nil, func(h *harness) {
		d := h.add("http://ci")
		if items, _, _ := h.lease(1, 120); len(items) != 1 { // an agent that is killed now
			t.Fatal("the delivery is not due")
		}
		began := time.Now()
		h.start()
		h.waitForResult(t, d)
		if took := time.Since(began); took != 2*time.Minute || len(h.requests) != 1 {
			t.Errorf("sent %d times after %s, want once after the lease of 2 min", len(h.requests), took)
		}
		h.stopAndWait()
	})
}

func TestUnreportedResultsAreBounded(t *testing.T) {
	runTest(t, func(c *Config) { c.Concurrency = 5 }, func(h *harness) {
		h.setFault(func(w http.ResponseWriter, r *http.Request) bool {
			isReport := !strings.HasSuffix(r.URL.Path, "/claim")
			if isReport {
				problem(w, 503)
			}
			return isReport
		})
		for i := range 1000 {
			h.add(fmt.Sprint("http://ci", i))
		}
		h.start()
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := len(h.requests); got != 105 {
			t.Errorf("got %d requests without a stored result, want 100 and one for each slot", got)
		}
		h.stopAndWait()
	})
}
