package ingest_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/ingest"
)

const (
	tooMany    = "Too many requests; send it again later."
	tooForged  = "Too many requests that could not be verified."
	unverified = "The request could not be verified."
)

// limit sets the rate limit of a source.
func limit(perSecond, perMinute, burst int) func(*eventhook.Source) {
	return func(s *eventhook.Source) {
		s.RateLimit = eventhook.RateLimit{RequestsPerSecond: perSecond, RequestsPerMinute: perMinute, BurstSize: burst}
	}
}

func forgeriesOf(perSecond float64, burst int) func(*ingest.Config) {
	return func(c *ingest.Config) { c.ForgeriesPerSec, c.ForgeriesBurst = perSecond, burst }
}

// answered200 sends up to n webhooks until one is refused, and returns the number of accepted
// ones.
func (r *fixture) answered200(n int) int {
	for i := range n {
		if r.send(webhook("")).Code != http.StatusOK {
			return i
		}
	}
	return n
}

func TestASourcesLimits(t *testing.T) {
	for _, c := range []struct {
		claim      string
		source     func(*eventhook.Source)
		atOnce     int
		retryAfter string
		wait       time.Duration
		then       int
	}{
		{"the default: 50 at once", func(*eventhook.Source) {}, 50, "1", time.Second / 2, 50},
		{"limited by the burst", limit(10, 1000, 3), 3, "1", time.Second / 10, 1},
		{"limited per second", limit(2, 1000, 5), 5, "1", time.Second, 2},
		{"limited per minute", limit(1000, 6, 100), 6, "10", 10 * time.Second, 1},
		{"limited per minute before per second", limit(1, 1, 1), 1, "60", time.Minute, 1},
	} {
		t.Run(c.claim, func(t *testing.T) {
			r := newFixture(t, c.source)
			wantCount(t, "at once", r.answered200(200), c.atOnce)
			w := r.send(webhook(""))
			wantProblem(t, w, http.StatusTooManyRequests, tooMany)
			wantHeader(t, w, "Retry-After", c.retryAfter)
			r.clock.Advance(c.wait - time.Millisecond)
			r.wantStored(t, c.atOnce+r.answered200(c.then-1))
			r.clock.Advance(time.Millisecond)
			r.answered200(200)
			r.wantStored(t, c.atOnce+c.then)
		})
	}
}

func TestTheRateLimitIsCheckedBeforeVerification(t *testing.T) {
	r := newFixture(t, limit(1, 1000, 1))
	r.answered200(1)
	body := &counted{Reader: strings.NewReader("x")}
	req := forgery("x")
	req.Body = io.NopCloser(body)
	wantProblem(t, r.send(req), http.StatusTooManyRequests, tooMany)
	wantCount(t, "reads of the body", body.reads, 0)
	wantCount(t, "unverified", r.observer.outcomes[ingest.OutcomeUnverified], 0)
}

type counted struct {
	io.Reader
	reads int
}

func (c *counted) Read(p []byte) (int, error) {
	c.reads++
	return c.Reader.Read(p)
}

// A request that is refused before it is verified does not count against the source's rate
// limit.
func TestOnlyGenuineRequestsCountAgainstTheRateLimit(t *testing.T) {
	for claim, req := range map[string]func() *http.Request{
		"forged":                       func() *http.Request { return forgery("") },
		"too large":                    func() *http.Request { return webhook(strings.Repeat("x", 100)) },
		"too large, of unknown length": func() *http.Request { return chunked(webhook(strings.Repeat("x", 100))) },
		"another content type":         func() *http.Request { return webhook("", "Content-Type", "text/html") },
		"truncated":                    func() *http.Request { return truncated(webhook("")) },
		"another address":              func() *http.Request { return from("203.0.113.9:1", webhook("")) },
		"another method":               func() *http.Request { r := webhook(""); r.Method = http.MethodPut; return r },
	} {
		t.Run(claim, func(t *testing.T) {
			r := newFixture(t, limit(1, 5, 5), func(s *eventhook.Source) {
				s.MaxBodyBytes, s.ContentTypes, s.AllowedIPRanges = 50, []string{"", "text/plain"}, []string{"192.0.2.0/24"}
			})
			for range 100 {
				if w := r.send(req()); w.Code == http.StatusOK {
					t.Fatalf("answered 200, want a refusal")
				}
			}
			wantCount(t, "genuine webhooks accepted afterwards", r.answered200(100), 5)
		})
	}
}

func truncated(r *http.Request) *http.Request {
	r.Body = io.NopCloser(io.MultiReader(strings.NewReader("x"), failing{}))
	return r
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// A forgery whose body is still being read does not use the source's rate limit.
func TestASlowForgeryUsesNoRateLimit(t *testing.T) {
	r := newFixture(t, limit(1, 2, 2))
	slow := forgery("x")
	slow.Body = io.NopCloser(readerFunc(func([]byte) (int, error) {
		wantCount(t, "accepted while a forgery is being read", r.answered200(10), 2)
		r.clock.Advance(time.Minute)
		return 0, io.EOF
	}))
	wantProblem(t, r.send(slow), http.StatusUnauthorized, unverified)
	wantCount(t, "accepted a minute later", r.answered200(10), 2)
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// A slow webhook is counted when it is complete, at the current time and not at its start.
func TestASlowWebhookIsCountedOnce(t *testing.T) {
	r := newFixture(t, limit(1, 60, 2))
	slow := webhook("")
	slow.Body = io.NopCloser(readerFunc(func([]byte) (int, error) {
		r.clock.Advance(time.Hour)
		wantCount(t, "accepted meanwhile", r.answered200(1), 1)
		return 0, io.EOF
	}))
	r.wantStatus(t, slow, http.StatusOK)
	wantCount(t, "accepted at once afterwards", r.answered200(10), 0)
}

func TestALimitThatIsUsedUpWhileTheBodyIsReadRefuses(t *testing.T) {
	r := newFixture(t, limit(1, 60, 2))
	slow := webhook("")
	slow.Body = io.NopCloser(readerFunc(func([]byte) (int, error) {
		wantCount(t, "accepted meanwhile", r.answered200(10), 2)
		return 0, io.EOF
	}))
	w := r.send(slow)
	wantProblem(t, w, http.StatusTooManyRequests, tooMany)
	wantHeader(t, w, "Retry-After", "1")
	r.wantStored(t, 2)
}

func TestAFloodOfForgeries(t *testing.T) {
	r := newFixture(t, limit(1, 5, 5), forgeriesOf(2, 10))
	for n := range 1000 {
		w := r.send(forgery(fmt.Sprint(n)))
		if n < 10 {
			wantProblem(t, w, http.StatusUnauthorized, unverified)
			continue
		}
		wantProblem(t, w, http.StatusTooManyRequests, tooForged)
		wantHeader(t, w, "Retry-After", "1")
	}
	wantCount(t, "genuine webhooks from the same address", r.answered200(100), 5)
	wantProblem(t, r.send(from("192.0.2.2:1", forgery(""))), http.StatusTooManyRequests, tooMany) // the source's limit is used up now
	r.clock.Advance(time.Minute)
	wantProblem(t, r.send(from("192.0.2.2:1", forgery(""))), http.StatusUnauthorized, unverified)
	wantProblem(t, r.send(forgery("")), http.StatusUnauthorized, unverified)
	if got := strings.Count(r.log.String(), "\n"); got > 50 {
		t.Errorf("the flood logged %d lines, want a few", got)
	}
}

func TestForgeriesAreCountedPerClient(t *testing.T) {
	for _, c := range []struct {
		claim, first, second string
		want                 int
	}{
		{"the same address", "198.51.100.1:1", "198.51.100.1:2", 429},
		{"another address", "198.51.100.1:1", "198.51.100.2:1", 401},
		{"the same address, IPv4-mapped", "198.51.100.1:1", "[::ffff:198.51.100.1]:1", 429},
		{"another IPv4-mapped address", "[::ffff:198.51.100.1]:1", "[::ffff:198.51.100.2]:1", 401},
		{"the same /64", "[2001:db8::1]:1", "[2001:db8::ffff:0:0:1]:1", 429},
		{"the same address in another zone", "[fe80::1%eth0]:1", "[fe80::1%eth1]:1", 429},
		{"another /64", "[2001:db8::1]:1", "[2001:db8:0:1::1]:1", 401},
	} {
		t.Run(c.claim, func(t *testing.T) {
			r := newFixture(t, forgeriesOf(1, 1))
			r.wantStatus(t, from(c.first, forgery("")), http.StatusUnauthorized)
			r.wantStatus(t, from(c.second, forgery("")), c.want)
		})
	}
}

// A reload of a source must not refill its rate limit.
func TestLimitsOutliveAReload(t *testing.T) {
	r := newFixture(t, limit(1, 60, 3))
	for _, reload := range []func(){
		func() {}, func() { r.handler.InvalidateSource("acme", "crm") }, func() { r.handler.InvalidateTenant("acme") }, r.handler.InvalidateAll,
	} {
		reload()
		r.answered200(10)
		r.wantStored(t, 3)
	}
	limit(1, 60, 4)(&r.sources.list[0])
	r.handler.InvalidateSource("acme", "crm")
	wantCount(t, "accepted under new limits", r.answered200(10), 4)
}
