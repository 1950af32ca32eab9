package ingest_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/ingest"
	"github.com/eventhook/eventhook/verify"
)

func crc() *http.Request { return echoes["x"].make("token") }

func TestTheMethodsOfASource(t *testing.T) {
	for _, c := range []struct {
		spec  verify.Spec
		allow string
	}{
		{plain("github"), "POST"},
		{plain("slack"), "POST"},
		{plain("x-twitter"), "GET, POST"},
		{plain("okta"), "GET, POST"},
		{plain("trello"), "HEAD, POST"},
		{plain("cloudevents"), "OPTIONS, POST"},
		{plain("azure-event-grid"), "OPTIONS, POST"},
		{plain("twilio"), "GET, POST"},
		{plain("zendesk"), "DELETE, GET, PATCH, POST, PUT"},
	} {
		r := newFixture(t, verifiedAs(c.spec))
		for _, method := range []string{"TRACE", "PROPFIND"} {
			w := r.send(unsignedRequest(method, "", ""))
			wantProblem(t, w, http.StatusMethodNotAllowed, "This source does not accept this method.")
			wantHeader(t, w, "Allow", c.allow)
		}
	}
}

// Providers that send events with other methods than POST have no handshake.
func TestEventsWithOtherMethods(t *testing.T) {
	for provider, methods := range map[string][]string{"zendesk": {"GET", "PUT", "PATCH", "DELETE"}, "hubspot": {"GET", "DELETE"}, "twilio": {"GET"}} {
		for _, method := range methods {
			newFixture(t, verifiedAs(unsigned(provider))).accepted(t, unsignedRequest(method, "challenge=1", ""))
			newFixture(t, verifiedAs(plain(provider))).wantStatus(t, unsignedRequest(method, "challenge=1", ""), http.StatusUnauthorized)
		}
	}
}

// A source that is disabled answers no handshake with any method.
func TestADisabledSourceIsAbsentForEveryMethod(t *testing.T) {
	for claim, change := range map[string]func(*eventhook.Source){
		"disabled":  func(s *eventhook.Source) { s.IsEnabled = false },
		"suspended": func(s *eventhook.Source) { s.TenantStatus = eventhook.TenantSuspended },
	} {
		for _, spec := range []verify.Spec{plain("x-twitter"), plain("trello"), plain("cloudevents"), plain("monday"), asana} {
			r := newFixture(t, verifiedAs(spec), change)
			for _, method := range append([]string{"POST"}, everyMethod...) {
				w := r.send(unsignedRequest(method, "crc_token=a", `{"challenge":"a"}`, "X-Hook-Secret", first, "WebHook-Request-Origin", "a.example"))
				wantProblem(t, w, http.StatusNotFound, "The source does not exist.")
				wantHeader(t, w, "Allow", "")
			}
			wantList(t, claim+": learned", r.learner.learned, "")
		}
	}
}

func TestTheAllowlistComesBeforeAHandshake(t *testing.T) {
	allowed := func(s *eventhook.Source) { s.AllowedIPRanges = []string{"198.51.100.0/24"} }
	r := newFixture(t, verifiedAs(asana), allowed)
	r.wantStatus(t, asanaHandshake(first), http.StatusForbidden)
	wantList(t, "learned", r.learner.learned, "")
	r.wantStatus(t, from("198.51.100.1:1", asanaHandshake(first)), http.StatusOK)
	c := caseNamed(t, confirmation)
	r = c.fixture(t, allowed)
	r.wantStatus(t, c.request(), http.StatusForbidden)
	wantList(t, "confirmed", r.confirmer.calls(), "")
}

func TestHandshakesCountAgainstTheRateLimit(t *testing.T) {
	for claim, c := range map[string]struct {
		spec    verify.Spec
		request func() *http.Request
	}{
		"unsigned": {plain("x-twitter"), crc},
		"signed":   {unsigned("slack"), func() *http.Request { return echoes["slack"].make("a") }},
	} {
		t.Run(claim, func(t *testing.T) {
			r := newFixture(t, verifiedAs(c.spec), limit(1, 60, 2))
			r.wantStatus(t, c.request(), http.StatusOK)
			r.wantStatus(t, c.request(), http.StatusOK)
			w := r.send(c.request())
			wantProblem(t, w, http.StatusTooManyRequests, tooMany)
			wantHeader(t, w, "Retry-After", "1")
			wantCount(t, "rate limited", r.observer.outcomes[ingest.OutcomeRateLimited], 1)
			r.clock.Advance(time.Second)
			r.wantStatus(t, c.request(), http.StatusOK)
		})
	}
}

// Any sender can send unsigned handshakes: a flood of them must not refuse the provider's
// events.
func TestAFloodOfUnsignedHandshakesRefusesNoEvent(t *testing.T) {
	spec := unsigned("monday")
	r := newFixture(t, verifiedAs(spec), limit(1, 60, 2))
	for range 10 {
		r.send(echoes["monday"].make("a"))
	}
	for range 2 {
		r.accepted(t, unsignedRequest("POST", "", `{"event":{}}`))
	}
	r.wantStatus(t, unsignedRequest("POST", "", `{"event":{}}`), http.StatusTooManyRequests)
}

func TestAnExceededRateLimitRefusesHandshakes(t *testing.T) {
	r := newFixture(t, verifiedAs(unsigned("monday")), limit(1, 60, 1))
	r.accepted(t, unsignedRequest("POST", "", `{"event":{}}`))
	r.wantStatus(t, echoes["monday"].make("a"), http.StatusTooManyRequests)
}

// A request that exceeds the rate limit does not store a secret.
func TestARateLimitedHandshakeHasNoEffect(t *testing.T) {
	r := newFixture(t, verifiedAs(asana), limit(1, 60, 1))
	r.learner.err = errDown
	r.wantStatus(t, asanaHandshake(first), http.StatusInternalServerError)
	r.learner.err = nil
	r.wantStatus(t, asanaHandshake(first), http.StatusTooManyRequests)
	wantList(t, "learned", r.learner.learned, "")
}

func TestRefusedHandshakesAreChargedToTheClient(t *testing.T) {
	for claim, c := range map[string]struct {
		spec    verify.Spec
		request func() *http.Request
		want    int
	}{
		"unsigned": {plain("x-twitter"), func() *http.Request { return unsignedRequest("GET", "", "") }, 400},
		"a wrong token": {meta, func() *http.Request {
			return unsignedRequest("GET", "hub.mode=subscribe&hub.challenge=1&hub.verify_token=x", "")
		}, 403},
		"signed":            {unsigned("slack"), func() *http.Request { return unsignedRequest("POST", "", `{"type":"url_verification"}`) }, 400},
		"another topic":     {withOptions("websub", map[string]string{"topic": "a"}, "s"), func() *http.Request { return unsignedRequest("GET", "hub.mode=subscribe&hub.topic=b", "") }, 404},
		"no origin":         {plain("cloudevents"), func() *http.Request { return unsignedRequest("OPTIONS", "", "") }, 405},
		"no challenge":      {unsigned("okta"), func() *http.Request { return unsignedRequest("GET", "", "") }, 400},
		"an invalid secret": {asana, func() *http.Request { return asanaHandshake("short") }, 400},
	} {
		t.Run(claim, func(t *testing.T) {
			r := newFixture(t, verifiedAs(c.spec), forgeriesOf(1, 2))
			r.wantStatus(t, c.request(), c.want)
			r.wantStatus(t, c.request(), c.want)
			wantProblem(t, r.send(c.request()), http.StatusTooManyRequests, tooForged)
			r.wantStatus(t, from("198.51.100.9:1", c.request()), c.want)
		})
	}
}

// Answered and rate-limited handshakes are not charged to the client.
func TestAnsweredHandshakesAreNotCharged(t *testing.T) {
	r := newFixture(t, verifiedAs(plain("x-twitter")), forgeriesOf(1, 1), limit(1, 60, 2))
	for range 10 {
		r.send(crc())
	}
	r.wantStatus(t, unsignedRequest("GET", "", ""), http.StatusBadRequest)
}

func TestHandshakesAndContentTypes(t *testing.T) {
	jsonOnly := func(s *eventhook.Source) { s.ContentTypes = []string{"application/json"} }
	for _, c := range []struct {
		claim string
		spec  verify.Spec
		r     *http.Request
		want  int
	}{
		{"a GET request without a body", plain("x-twitter"), crc(), 200},
		{"a HEAD request without a body", plain("trello"), unsignedRequest("HEAD", "", ""), 200},
		{"graph's token without a body", plain("microsoft-graph"), unsignedRequest("POST", "validationToken=a", "", "Content-Type", "text/plain"), 200},
		{"asana's secret without a body", asana, asanaHandshake(first), 200},
		{"a signed handshake without a body", unsigned("google-drive-calendar"), unsignedRequest("POST", "", "", "X-Goog-Resource-State", "sync"), 200},
		{"a body with an allowed type", plain("monday"), unsignedRequest("POST", "", `{"challenge":"a"}`, "Content-Type", "application/json"), 200},
		{"a body with another type", plain("monday"), unsignedRequest("POST", "", `{"challenge":"a"}`, "Content-Type", "text/plain"), 415},
		{"a body with another type and unknown length", plain("monday"), chunked(unsignedRequest("POST", "", `{"challenge":"a"}`)), 415},
		{"an event without a body", unsigned("microsoft-graph"), unsignedRequest("POST", "", ""), 415},
		{"a forged event without a body", plain("microsoft-graph"), unsignedRequest("POST", "", ""), 401},
		{"a forged event of a provider without a handshake", plain("github"), unsignedRequest("POST", "", ""), 415},
		{"an event of a provider without a handshake", unsigned("github"), unsignedRequest("POST", "", ""), 415},
	} {
		t.Run(c.claim, func(t *testing.T) {
			r := newFixture(t, verifiedAs(c.spec), jsonOnly)
			r.wantStatus(t, c.r, c.want)
			r.wantStored(t, 0)
		})
	}
}

func TestTheBodyLimitAppliesToHandshakes(t *testing.T) {
	r := newFixture(t, verifiedAs(plain("monday")), func(s *eventhook.Source) { s.MaxBodyBytes = 10 })
	r.wantStatus(t, echoes["monday"].make("a"), http.StatusRequestEntityTooLarge)
}

// Xero requires refusals without a body and stops sending if it gets one with a body.
func TestXeroIsRefusedWithoutABody(t *testing.T) {
	r := newFixture(t, verifiedAs(plain("xero")), forgeriesOf(1, 1))
	for _, want := range []int{401, 429} {
		w := r.wantStatus(t, unsignedRequest("POST", "", `{"events":[]}`, "X-Xero-Signature", "AAAA"), want)
		if w.Body.Len() != 0 || w.Header().Get("Content-Type") != "" {
			t.Errorf("%d: answered %q of type %q, want nothing", want, w.Body, w.Header().Get("Content-Type"))
		}
	}
	wantProblem(t, r.send(unsignedRequest("GET", "", "")), http.StatusMethodNotAllowed, "This source does not accept this method.")
}

func TestAnAnswerWithoutABodyHasNone(t *testing.T) {
	for _, status := range []int{http.StatusNoContent, http.StatusResetContent} {
		r := newFixture(t, open, func(s *eventhook.Source) {
			s.Response = &eventhook.SourceReply{Status: status, ContentType: "text/plain", Body: "thanks"}
		})
		if w := r.wantStatus(t, webhook(""), status); w.Body.Len() != 0 {
			t.Errorf("%d: answered %q, want no body", status, w.Body)
		}
		r.wantStored(t, 1)
	}
}

// Without a Learner, a Confirm or Services, the Handler refuses requests that need them.
func TestOptionalDependencies(t *testing.T) {
	c := caseNamed(t, confirmation)
	for claim, try := range map[string]struct {
		spec verify.Spec
		r    *http.Request
		want int
	}{
		"no Learner":           {asana, asanaHandshake(first), 500},
		"no Confirm":           {c.Spec, c.request(), 500},
		"no Services":          {plain("github"), httptest.NewRequest("GET", ingest.FastlyPath, nil), 404},
		"no dependency needed": {plain("x-twitter"), crc(), 200},
	} {
		r, source := newFixture(t), newSource("acme", "crm")
		verifiedAs(try.spec)(&source)
		r.router = echo.New()
		ingest.NewHandler(testConfig(), ingest.Deps{Sources: &sources{list: []eventhook.Source{source}}, Acceptor: r.batcher,
			Observer: r.observer, Log: slog.New(slog.DiscardHandler), Now: r.clock.Now}).Register(r.router)
		if w := r.send(try.r); w.Code != try.want {
			t.Errorf("%s: answered %d, want %d", claim, w.Code, try.want)
		}
	}
}

// Explain recognizes the handshakes that the gateway answers.
func TestExplainRecognizesHandshakes(t *testing.T) {
	for _, c := range testCases(t) {
		if c.Path != "" {
			continue // not a request to the source
		}
		r := c.fixture(t)
		req := c.request()
		sent := &verify.Request{Method: req.Method, URL: "https://hooks.example" + req.URL.String(), Header: req.Header, Body: []byte(c.Body), At: r.clock.Now()}
		x, err := ingest.Explain(t.Context(), r.sources.list[0], "https://hooks.example", nil, sent)
		if err != nil {
			t.Errorf("%s: %v", c.Name, err)
			continue
		}
		if answers := x.Handshake != "" && x.Refused == ""; answers != c.isAnswered() {
			t.Errorf("%s: got handshake %q, refused %q; the gateway answers it: %t", c.Name, x.Handshake, x.Refused, c.isAnswered())
		}
	}
}
