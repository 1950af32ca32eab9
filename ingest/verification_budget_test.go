package ingest_test

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/ingest"
	"github.com/eventhook/eventhook/verify"
)

// signingKey signs requests in these tests.
var signingKey = ed25519.NewKeyFromSeed([]byte(strings.Repeat("s", ed25519.SeedSize)))

// publicKey lets a source verify signatures of signingKey and of n other keys.
func publicKey(n int) func(*eventhook.Source) {
	return func(s *eventhook.Source) {
		keys := []string{hex.EncodeToString(signingKey.Public().(ed25519.PublicKey))}
		for i := range n {
			other := ed25519.NewKeyFromSeed([]byte(strings.Repeat(string(rune('a'+i)), ed25519.SeedSize)))
			keys = append(keys, hex.EncodeToString(other.Public().(ed25519.PublicKey)))
		}
		s.Verifier = verifier(verify.Config{Type: "public_key", Header: "X-Sig", PublicKeys: keys})
	}
}

func genuine(body string) *http.Request {
	r := webhook(body)
	r.Header.Set("X-Sig", hex.EncodeToString(ed25519.Sign(signingKey, []byte(body))))
	return r
}

func expensiveForgery(body string) *http.Request {
	r := webhook(body)
	r.Header.Set("X-Sig", strings.Repeat("0", 128))
	return r
}

func workPerSecond(n int) func(*ingest.Config) {
	return func(c *ingest.Config) { c.UnverifiedWorkPerSec = n }
}

// verifiedForgeries sends n forgeries and returns how many of them were verified: only for
// these the observer gets a reason of the verifier.
func (r *fixture) verifiedForgeries(n int, send func() *http.Request) int {
	before := len(r.observer.reasons)
	for range n {
		r.send(send())
	}
	count := 0
	for _, reason := range r.observer.reasons[before:] {
		if reason == string(verify.ReasonMismatch) {
			count++
		}
	}
	return count
}

// Attack: a flood of forgeries whose verification is expensive. The work is limited by the
// budgets and reserved before it is done.
func TestExpensiveForgeriesAreRefusedBeforeTheWork(t *testing.T) {
	const units = 10 // per request: ten keys, one signature
	for _, c := range []struct {
		claim   string
		clients int
		want    int // verifications of 1000 simultaneous requests
	}{
		// One client uses its own 50 units first, and then at most half of the source's
		// 1000 units.
		{"one client", 1, 50},
		// The budgets of all clients within the source's 1000.
		{"a thousand clients", 1000, 100},
	} {
		t.Run(c.claim, func(t *testing.T) {
			r := newFixture(t, publicKey(9), workPerSecond(1000), limit(1_000_000, 60_000_000, 1_000_000), forgeriesOf(20, 50))
			n := 0
			got := r.verifiedForgeries(1000, func() *http.Request {
				n++
				return from(fmt.Sprintf("198.51.%d.%d:1", n%c.clients/250, n%c.clients%250+1), expensiveForgery("{}"))
			})
			if got < c.want-1 || got > c.want {
				t.Errorf("%d of 1000 were verified, want %d: %d units", got, c.want, c.want*units)
			}
			r.clock.Advance(time.Second)
			if got := r.verifiedForgeries(1000, func() *http.Request { return from("203.0.113.1:1", expensiveForgery("{}")) }); got > 100 {
				t.Errorf("a second later %d were verified, want at most 100", got)
			}
		})
	}
}

// A provider behind the same address as a forger is verified with the budget of its source,
// and its work is returned.
func TestAGenuineSenderWithAForgersAddressIsVerified(t *testing.T) {
	r := newFixture(t, publicKey(9), workPerSecond(1000), limit(1_000_000, 60_000_000, 1_000_000), forgeriesOf(20, 50))
	other := newSource("acme", "other")
	publicKey(9)(&other)
	limit(1_000_000, 60_000_000, 1_000_000)(&other)
	r.sources.list = append(r.sources.list, other)
	to := func(req *http.Request) *http.Request {
		req.URL.Path = ingest.Path("acme", "other")
		return req
	}
	r.verifiedForgeries(1000, func() *http.Request { return to(expensiveForgery("{}")) })
	wantProblem(t, r.send(to(expensiveForgery("{}"))), http.StatusTooManyRequests, tooForged)
	for range 500 {
		r.wantStatus(t, genuine("{}"), http.StatusOK)
	}
	// Another address can still send to the flooded source.
	for range 500 {
		r.wantStatus(t, from("203.0.113.7:1", to(genuine("{}"))), http.StatusOK)
	}
}

// The sources of a tenant share its work budget; other tenants have their own.
func TestSourcesOfATenantShareItsWorkBudget(t *testing.T) {
	r := newFixture(t, publicKey(9), workPerSecond(1000), forgeriesOf(20, 50))
	first := r.sources.list[0]
	for i := range 10 {
		s := newSource("acme", fmt.Sprintf("s%d", i))
		publicKey(9)(&s)
		s.TenantID = first.TenantID
		r.sources.list = append(r.sources.list, s)
	}
	verified := 0
	for i := range 10 {
		n := 0
		verified += r.verifiedForgeries(200, func() *http.Request {
			n++
			req := from(fmt.Sprintf("198.51.%d.%d:1", i, n), expensiveForgery("{}"))
			req.URL.Path = ingest.Path("acme", fmt.Sprintf("s%d", i))
			return req
		})
	}
	if verified > 200 {
		t.Errorf("%d were verified, want at most 200: the tenant's 2000 units", verified)
	}
	other := newSource("globex", "crm")
	publicKey(9)(&other)
	r.sources.list = append(r.sources.list, other)
	req := genuine("{}")
	req.URL.Path = ingest.Path("globex", "crm")
	r.wantStatus(t, from("192.0.2.9:1", req), http.StatusOK)
}

// A verification of less than one unit is always done: a source with HMAC signatures never
// refuses genuine requests because of forgeries.
func TestCheapVerificationIsAlwaysDone(t *testing.T) {
	r := newFixture(t, forgeriesOf(1, 1), limit(1_000_000, 60_000_000, 1_000_000))
	for range 100 {
		r.send(forgery("x"))
	}
	for range 100 {
		r.wantStatus(t, webhook("x"), http.StatusOK)
	}
}

// A verification that costs more than the burst of a budget is still possible.
func TestALargeGenuineBodyIsVerified(t *testing.T) {
	r := newFixture(t, workPerSecond(100), forgeriesOf(1, 1), func(s *eventhook.Source) { s.MaxBodyBytes = eventhook.LargestMaxBodyBytes })
	large := strings.Repeat("x", 16<<20)
	for range 3 {
		r.wantStatus(t, webhook(large), http.StatusOK)
	}
	for _, want := range []int{http.StatusUnauthorized, http.StatusTooManyRequests} { // a forgery uses half of the budget
		req := webhook(large)
		req.Header.Set("X-Sig", sign("x"))
		r.wantStatus(t, req, want)
	}
}

// fetcher is a SharedKeys without cached keys whose fetches fail.
type fetcher struct {
	err     error
	fetches int
	owners  map[eventhook.SourceID]bool
}

func (f *fetcher) Keys(ctx context.Context, _, _ string) ([]verify.Key, error) {
	if verify.CachedKeysOnly(ctx) {
		return nil, &eventhook.Error{Kind: eventhook.KindUnavailable, Message: "nothing is fetched"}
	}
	f.fetches++
	return nil, f.err
}

func (f *fetcher) ForSource(_ eventhook.TenantID, source eventhook.SourceID) verify.Keys {
	f.owners[source] = true
	return f
}

// withKeys returns a router to a Handler whose keys come from f.
func (r *fixture) withKeys(f *fetcher, c ingest.Config) *echo.Echo {
	router := echo.New()
	ingest.NewHandler(c, ingest.Deps{Sources: r.sources, Acceptor: r.batcher, Observer: r.observer, Keys: f,
		Log: slog.New(slog.NewJSONHandler(r.log, nil)), Now: r.clock.Now}).Register(router)
	return router
}

func tokenFor(kid string) *http.Request {
	head := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"RS256","kid":"` + kid + `"}`))
	return webhook("{}", "Authorization", "Bearer "+head+".e30."+strings.Repeat("A", 342))
}

func TestAKeyThatCannotBeFetchedIs503(t *testing.T) {
	down := errors.New("status 502")
	for _, c := range []struct {
		claim      string
		err        error
		want       int
		retryAfter string
	}{
		{"the provider is down", down, http.StatusServiceUnavailable, "5"},
		{"too many fetches", &eventhook.Error{Kind: eventhook.KindUnavailable, Message: "busy"}, http.StatusServiceUnavailable, "5"},
		{"the document does not exist", eventhook.NotFound("document"), http.StatusServiceUnavailable, "5"}, // the URL is the tenant's choice
	} {
		r := newFixture(t, func(s *eventhook.Source) {
			s.Verifier = verifier(verify.Config{Type: "jwt", KeySetURL: "https://keys.example/jwks"})
		})
		f := &fetcher{err: c.err, owners: map[eventhook.SourceID]bool{}}
		w := httptest.NewRecorder()
		r.withKeys(f, testConfig()).ServeHTTP(w, tokenFor("k"))
		if w.Code != c.want || w.Header().Get("Retry-After") != c.retryAfter || f.fetches != 1 {
			t.Errorf("%s: answered %d, Retry-After %q, after %d fetches; want %d, %q", c.claim, w.Code, w.Header().Get("Retry-After"), f.fetches, c.want, c.retryAfter)
		}
		if !f.owners[r.sources.list[0].ID] {
			t.Errorf("%s: the fetch was not made for the source", c.claim)
		}
	}
}

// Attack: forgeries that name made-up certificates.
func TestMadeUpCertificatesAreFetchedWithinTheBudget(t *testing.T) {
	const requests = 200
	r := newFixture(t, func(s *eventhook.Source) { s.Verifier = spec(verify.Spec{Provider: "aws-sns"}) },
		limit(1_000_000, 60_000_000, 1_000_000))
	f := &fetcher{err: eventhook.NotFound("document"), owners: map[eventhook.SourceID]bool{}}
	router := r.withKeys(f, testConfig())
	answers := map[int]int{}
	for i := range requests {
		body := fmt.Sprintf(`{"Type":"Notification","MessageId":"1","TopicArn":"arn","Timestamp":"t","Message":"m","SignatureVersion":"2",
			"Signature":%q,"SigningCertURL":"https://sns.us-east-1.amazonaws.com/SimpleNotificationService-%x.pem"}`,
			base64.StdEncoding.EncodeToString(make([]byte, 256)), i)
		w := httptest.NewRecorder()
		router.ServeHTTP(w, webhook(body))
		answers[w.Code]++
	}
	if f.fetches > 10 || f.fetches == 0 {
		t.Errorf("%d fetches for %d forgeries of one client, want at most 10: %v", f.fetches, requests, answers)
	}
}
