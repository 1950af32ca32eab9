package ingest_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/ingest"
	"github.com/eventhook/eventhook/verify"
)

func withOptions(provider string, options map[string]string, secrets ...string) verify.Spec {
	return verify.Spec{Provider: provider, Options: options, Secrets: secrets}
}

// unsigned returns a provider's Spec without verification.
func unsigned(provider string) verify.Spec {
	return verify.Spec{Provider: provider, Verifier: &verify.Config{Type: "none"}}
}

var (
	meta      = withOptions("meta", map[string]string{"verify_token": "vt"}, "s")
	strava    = withOptions("strava", map[string]string{"verify_token": "vt"}, "s")
	braintree = withOptions("braintree", map[string]string{"public_key_id": "p"}, "s")
	ebay      = verify.Spec{Provider: "ebay", Secrets: []string{"s"}, PublicKeys: []string{ebayKey}}
)

// plain returns a provider's Spec with a secret.
func plain(provider string) verify.Spec { return withOptions(provider, nil, "s") }

// member returns a JSON object with one member.
func member(name, value string) string {
	b, err := json.Marshal(map[string]string{name: value})
	if err != nil {
		panic(err)
	}
	return string(b)
}

// echoes has the handshakes whose reply contains a text of the request, by name. make returns a
// request with the given text.
var echoes = map[string]struct {
	spec verify.Spec
	make func(text string) *http.Request
}{
	"challenge": {plain("dropbox"), func(text string) *http.Request { return unsignedRequest("GET", "challenge="+url.QueryEscape(text), "") }},
	"meta": {meta, func(text string) *http.Request {
		return unsignedRequest("GET", "hub.mode=subscribe&hub.verify_token=vt&hub.challenge="+url.QueryEscape(text), "")
	}},
	"strava": {strava, func(text string) *http.Request {
		return unsignedRequest("GET", "hub.mode=subscribe&hub.verify_token=vt&hub.challenge="+url.QueryEscape(text), "")
	}},
	"websub": {plain("websub"), func(text string) *http.Request {
		return unsignedRequest("GET", "hub.mode=subscribe&hub.topic=t&hub.challenge="+url.QueryEscape(text), "")
	}},
	"microsoft": {plain("sharepoint"), func(text string) *http.Request {
		return unsignedRequest("POST", "ValidationTOKEN="+url.QueryEscape(text), "")
	}},
	"ebay": {ebay, func(text string) *http.Request {
		return unsignedRequest("GET", "challenge_code="+url.QueryEscape(text), "")
	}},
	"x": {plain("x-twitter"), func(text string) *http.Request { return unsignedRequest("GET", "crc_token="+url.QueryEscape(text), "") }},
	"linkedin": {plain("linkedin"), func(text string) *http.Request {
		return unsignedRequest("GET", "challengeCode="+url.QueryEscape(text), "")
	}},
	"monday": {plain("monday"), func(text string) *http.Request { return unsignedRequest("POST", "", member("challenge", text)) }},
	"smartsheet": {plain("smartsheet"), func(text string) *http.Request {
		return unsignedRequest("POST", "", member("challenge", text), "Smartsheet-Hook-Challenge", text)
	}},
	"okta": {unsigned("okta"), func(text string) *http.Request {
		return unsignedRequest("GET", "", "", "X-Okta-Verification-Challenge", text)
	}},
	"slack": {unsigned("slack"), func(text string) *http.Request {
		return unsignedRequest("POST", "", `{"type":"url_verification",`+member("challenge", text)[1:])
	}},
	"twitch": {unsigned("twitch"), func(text string) *http.Request {
		return unsignedRequest("POST", "", member("challenge", text), "Twitch-Eventsub-Message-Type", "webhook_callback_verification")
	}},
	"azure-event-grid": {unsigned("azure-event-grid"), func(text string) *http.Request {
		return unsignedRequest("POST", "", `[{"eventType":"Microsoft.EventGrid.SubscriptionValidationEvent","data":`+member("validationCode", text)+`}]`,
			"Aeg-Event-Type", "SubscriptionValidation")
	}},
}

func TestEchoesAreBounded(t *testing.T) {
	for _, c := range []struct {
		claim, text string
		want        int
	}{
		{"a token", "abc-123", 200},
		{"of the maximum length", strings.Repeat("x", 4096), 200},
		{"a byte too long", strings.Repeat("x", 4097), 400},
		{"far too long", strings.Repeat("x", 5000), 400},
		{"empty", "", 400},
		{"a line end", "a\nb", 400},
		{"an injected header", "a\r\nSet-Cookie: b=c", 400},
		{"NUL", "a\x00b", 400},
		{"DEL", "a\x7fb", 400},
		{"a tab", "a\tb", 400},
		{"another control character", "a\u0085b", 400},
	} {
		for name, echo := range echoes {
			t.Run(name+"/"+c.claim, func(t *testing.T) {
				r := newFixture(t, verifiedAs(echo.spec))
				w := r.wantStatus(t, echo.make(c.text), c.want)
				if c.want == http.StatusOK {
					wantSafe(t, w)
				} else if strings.Contains(w.Body.String(), "xxxx") || w.Header().Get("Set-Cookie") != "" {
					t.Errorf("answered %s %v, want no part of the text", w.Body, w.Header())
				}
				r.wantStored(t, 0)
			})
		}
	}
}

// The headers of an echo prevent a browser from running it as a page.
func TestBrowsersDoNotRunAnEcho(t *testing.T) {
	const script = "<script>alert(1)</script>"
	for _, name := range []string{"challenge", "meta", "websub", "microsoft", "monday", "slack", "twitch", "strava"} {
		w := newFixture(t, verifiedAs(echoes[name].spec)).wantStatus(t, echoes[name].make(script), http.StatusOK)
		wantSafe(t, w)
		if got := w.Body.String(); got != script && !json.Valid(w.Body.Bytes()) {
			t.Errorf("%s: answered %s, want the text or JSON", name, got)
		}
	}
}

func TestRefusedHandshakes(t *testing.T) {
	const (
		hub    = "hub.mode=subscribe&hub.verify_token=vt&hub.challenge=1"
		code   = "0123456789abcdef0123"
		origin = "WebHook-Request-Origin"
		grid   = "Aeg-Event-Type"
		twitch = "Twitch-Eventsub-Message-Type"

		validation = `{"eventType":"Microsoft.EventGrid.SubscriptionValidationEvent","data":{"validationCode":"a"}}`
	)
	head := func(name, value string) []string { return []string{name, value} }
	noKey := withOptions("braintree", nil)
	noKey.Verifier = &verify.Config{Type: "hmac", Header: "X", Secrets: []string{"s"}}
	for _, c := range []struct {
		claim         string
		spec          verify.Spec
		method, query string
		body          string
		headers       []string
		want          int
	}{
		{"dropbox: no challenge", plain("dropbox"), "GET", "", "", nil, 400},
		{"dropbox: two challenges", plain("dropbox"), "GET", "challenge=a&challenge=a", "", nil, 400},
		{"dropbox: another case of the name", plain("dropbox"), "GET", "Challenge=a", "", nil, 400},
		{"dropbox: a query that cannot be read", plain("dropbox"), "GET", "challenge=a&%zz", "", nil, 400},
		{"dropbox: not UTF-8", plain("dropbox"), "GET", "challenge=%ff", "", nil, 400},
		{"dropbox: posted", plain("dropbox"), "POST", "challenge=a", "", nil, 401},
		{"dropbox: HEAD", plain("dropbox"), "HEAD", "challenge=a", "", nil, 405},
		{"meta: another mode", meta, "GET", "hub.mode=unsubscribe&hub.verify_token=vt&hub.challenge=1", "", nil, 400},
		{"meta: no mode", meta, "GET", "hub.verify_token=vt&hub.challenge=1", "", nil, 400},
		{"meta: no challenge", meta, "GET", "hub.mode=subscribe&hub.verify_token=vt", "", nil, 400},
		{"meta: no verify token", meta, "GET", "hub.mode=subscribe&hub.challenge=1", "", nil, 400},
		{"meta: half a verify token", meta, "GET", "hub.mode=subscribe&hub.challenge=1&hub.verify_token=v", "", nil, 403},
		{"meta: two challenges", meta, "GET", hub + "&hub.challenge=2", "", nil, 400},
		{"meta: two verify tokens", meta, "GET", hub + "&hub.verify_token=vt", "", nil, 400},
		{"meta: two modes", meta, "GET", hub + "&hub.mode=subscribe", "", nil, 400},
		{"meta: posted", meta, "POST", hub, "", nil, 401},
		{"strava: two verify tokens", strava, "GET", hub + "&hub.verify_token=wrong", "", nil, 400},
		{"strava: no verify token configured", unsigned("strava"), "GET", hub, "", nil, 403},
		{"websub: no topic", plain("websub"), "GET", "hub.mode=subscribe&hub.challenge=1", "", nil, 400},
		{"websub: two topics", plain("websub"), "GET", "hub.mode=subscribe&hub.challenge=1&hub.topic=a&hub.topic=b", "", nil, 400},
		{"websub: no challenge", plain("websub"), "GET", "hub.mode=subscribe&hub.topic=a", "", nil, 400},
		{"websub: another mode", plain("websub"), "GET", "hub.mode=publish&hub.topic=a&hub.challenge=1", "", nil, 400},
		{"graph: two tokens whose names differ in case", plain("microsoft-graph"), "POST", "validationToken=a&validationtoken=b", "", nil, 400},
		{"graph: no token", plain("microsoft-graph"), "POST", "", "", nil, 401},
		{"graph: a token and a body", plain("microsoft-graph"), "POST", "validationToken=a", `{"value":[{"clientState":"x"}]}`, nil, 401},
		{"graph: GET", plain("microsoft-graph"), "GET", "validationToken=a", "", nil, 405},
		{"x: two tokens", plain("x-twitter"), "GET", "crc_token=a&crc_token=b", "", nil, 400},
		{"x: no secret", unsigned("x-twitter"), "GET", "crc_token=a", "", nil, 403},
		{"linkedin: no code", plain("linkedin"), "GET", "", "", nil, 400},
		{"linkedin: two codes", plain("linkedin"), "GET", "challengeCode=a&challengeCode=b", "", nil, 400},
		{"linkedin: no secret", unsigned("linkedin"), "GET", "challengeCode=a", "", nil, 403},
		{"ebay: no code", ebay, "GET", "", "", nil, 400},
		{"ebay: two codes", ebay, "GET", "challenge_code=a&challenge_code=b", "", nil, 400},
		{"ebay: no secret", unsigned("ebay"), "GET", "challenge_code=a", "", nil, 403},
		{"braintree: no challenge", braintree, "GET", "", "", nil, 400},
		{"braintree: capitals", braintree, "GET", "bt_challenge=" + strings.ToUpper(code), "", nil, 400},
		{"braintree: too short", braintree, "GET", "bt_challenge=" + code[:19], "", nil, 400},
		{"braintree: a trailing line end", braintree, "GET", "bt_challenge=" + code + "%0a", "", nil, 400},
		{"braintree: two challenges", braintree, "GET", "bt_challenge=" + code + "&bt_challenge=" + code, "", nil, 400},
		{"braintree: no secret", unsigned("braintree"), "GET", "bt_challenge=" + code, "", nil, 403},
		{"braintree: no public_key_id", noKey, "GET", "bt_challenge=" + code, "", nil, 403},
		{"trello: HEAD with a query", plain("trello"), "HEAD", "a=b", "", nil, 200},
		{"trello: GET", plain("trello"), "GET", "", "", nil, 405},
		{"okta: two challenges", unsigned("okta"), "GET", "", "", []string{"X-Okta-Verification-Challenge", "a", "X-Okta-Verification-Challenge", "b"}, 400},
		{"okta: posted without the token", plain("okta"), "POST", "", "", head("X-Okta-Verification-Challenge", "a"), 401},
		{"cloudevents: no origin", plain("cloudevents"), "OPTIONS", "", "", nil, 405},
		{"cloudevents: a browser's preflight request", plain("cloudevents"), "OPTIONS", "", "", []string{"Origin", "https://a.example", "Access-Control-Request-Method", "POST"}, 405},
		{"cloudevents: two origins", plain("cloudevents"), "OPTIONS", "", "", []string{origin, "a.example", origin, "b.example"}, 400},
		{"cloudevents: an origin that is a URL", plain("cloudevents"), "OPTIONS", "", "", head(origin, "https://a.example"), 400},
		{"cloudevents: an origin with a space", plain("cloudevents"), "OPTIONS", "", "", head(origin, "a.example b.example"), 400},
		{"cloudevents: any origin", plain("cloudevents"), "OPTIONS", "", "", head(origin, "*"), 400},
		{"cloudevents: an origin with a line end", plain("cloudevents"), "OPTIONS", "", "", head(origin, "a.example\r\nX: y"), 400},
		{"cloudevents: an origin that is too long", plain("cloudevents"), "OPTIONS", "", "", head(origin, strings.Repeat("a", 254)), 400},
		{"event grid: no validation", unsigned("azure-event-grid"), "POST", "", `[{"eventType":"x","data":{"validationCode":"a"}}]`, head(grid, "SubscriptionValidation"), 400},
		{"event grid: two events", unsigned("azure-event-grid"), "POST", "", `[{},{}]`, head(grid, "SubscriptionValidation"), 400},
		{"event grid: two validations", unsigned("azure-event-grid"), "POST", "", `[` + validation + `,` + validation + `]`, head(grid, "SubscriptionValidation"), 400},
		{"event grid: an empty list", unsigned("azure-event-grid"), "POST", "", `[]`, head(grid, "SubscriptionValidation"), 400},
		{"event grid: an object instead of a list", unsigned("azure-event-grid"), "POST", "", validation, head(grid, "SubscriptionValidation"), 400},
		{"event grid: no body", unsigned("azure-event-grid"), "POST", "", "", head(grid, "SubscriptionValidation"), 400},
		{"slack: no challenge", unsigned("slack"), "POST", "", `{"type":"url_verification"}`, nil, 400},
		{"slack: a challenge that is not a string", unsigned("slack"), "POST", "", `{"type":"url_verification","challenge":1}`, nil, 400},
		{"slack: a challenge that is null", unsigned("slack"), "POST", "", `{"type":"url_verification","challenge":null}`, nil, 400},
		{"zoom: no secret", unsigned("zoom"), "POST", "", `{"event":"endpoint.url_validation","payload":{"plainToken":"a"}}`, nil, 403},
		{"zoom: no token", unsigned("zoom"), "POST", "", `{"event":"endpoint.url_validation","payload":{}}`, nil, 400},
		{"monday: unsigned, with another member", plain("monday"), "POST", "", `{"challenge":"a","event":{}}`, nil, 401},
		{"monday: a challenge that is not a string", plain("monday"), "POST", "", `{"challenge":{"a":1}}`, nil, 400},
		{"monday: a repeated member", plain("monday"), "POST", "", `{"challenge":"a","challenge":"b"}`, nil, 401},
		{"monday: text after the object", plain("monday"), "POST", "", `{"challenge":"a"}{}`, nil, 401},
		{"monday: an object that is not closed", plain("monday"), "POST", "", `{"challenge":"a"`, nil, 401},
		{"monday: a list", plain("monday"), "POST", "", `[{"challenge":"a"}]`, nil, 401},
		{"monday: far too long for a handshake", plain("monday"), "POST", "", member("challenge", strings.Repeat("x", 20_000)), nil, 401},
		{"smartsheet: header and body differ", plain("smartsheet"), "POST", "", `{"challenge":"a","webhookId":1}`, head("Smartsheet-Hook-Challenge", "b"), 400},
		{"smartsheet: not ASCII", plain("smartsheet"), "POST", "", `{"challenge":"ä"}`, head("Smartsheet-Hook-Challenge", "ä"), 400},
		{"smartsheet: no header", plain("smartsheet"), "POST", "", `{"challenge":"a","webhookId":1}`, nil, 401},
		{"smartsheet: no challenge in the body", plain("smartsheet"), "POST", "", `{"webhookId":1}`, head("Smartsheet-Hook-Challenge", "b"), 401},
		{"woocommerce: another field", plain("woocommerce"), "POST", "", "webhook_id=1&a=b", head("Content-Type", formType), 401},
		{"woocommerce: not a number", plain("woocommerce"), "POST", "", "webhook_id=1x", head("Content-Type", formType), 401},
		{"woocommerce: a repeated field", plain("woocommerce"), "POST", "", "webhook_id=1&webhook_id=2", head("Content-Type", formType), 401},
		{"woocommerce: another content type", plain("woocommerce"), "POST", "", "webhook_id=1", head("Content-Type", "application/json"), 401},
		{"woocommerce: with a wrong signature", plain("woocommerce"), "POST", "", "webhook_id=1", []string{"Content-Type", formType, "X-WC-Webhook-Signature", "AAAA"}, 401},
		{"twitch: no challenge", unsigned("twitch"), "POST", "", `{}`, head(twitch, "webhook_callback_verification"), 400},
		{"adyen: a notification", withOptions("adyen", nil, "00ff"), "POST", "", `{"notificationItems":[{}]}`, nil, 401},
		{"adyen: null", withOptions("adyen", nil, "00ff"), "POST", "", `{"notificationItems":null}`, nil, 401},
		{"fastly: GET at the source", unsigned("fastly"), "GET", "", "", nil, 405},
	} {
		t.Run(c.claim, func(t *testing.T) {
			r := newFixture(t, verifiedAs(c.spec))
			r.wantStatus(t, unsignedRequest(c.method, c.query, c.body, c.headers...), c.want)
			r.wantStored(t, 0)
		})
	}
}

func TestARequestWithoutAnOriginGetsTheAllowedMethod(t *testing.T) {
	w := newFixture(t, verifiedAs(plain("cloudevents"))).send(unsignedRequest("OPTIONS", "", ""))
	wantProblem(t, w, http.StatusMethodNotAllowed, "This source does not accept this method.")
	wantHeader(t, w, "Allow", "POST")
}

func TestAnInvalidRateAllowsAnyRate(t *testing.T) {
	for _, text := range []string{"", "1.5", "-1", "many", "12345678901", "1\r\nX: y"} {
		w := newFixture(t, verifiedAs(plain("cloudevents"))).wantStatus(t, unsignedRequest("OPTIONS", "", "", "WebHook-Request-Origin", "a.example", "WebHook-Request-Rate", text), http.StatusOK)
		wantHeader(t, w, "WebHook-Allowed-Rate", "*")
	}
}

// A sender that could obtain a signature of any text could forge an event.
func TestNoEventIsSignedAsAChallenge(t *testing.T) {
	for name, text := range map[string]string{
		"x":        `{"for_user_id":"1","tweet_create_events":[]}`,
		"linkedin": `hmacsha256={"type":"ORGANIZATION_SOCIAL_ACTION_NOTIFICATIONS"}`,
	} {
		newFixture(t, verifiedAs(echoes[name].spec)).wantStatus(t, echoes[name].make(text), http.StatusBadRequest)
	}
	for name, texts := range map[string][]string{"x": {`{}`, `[]`, `""`, "a=b", "a&b", "a b", "a=b=="}, "linkedin": {"hmacsha256=", "hmacsha256={}"}} {
		for _, text := range texts {
			newFixture(t, verifiedAs(echoes[name].spec)).wantStatus(t, echoes[name].make(text), http.StatusBadRequest)
		}
	}
}

// A request that could be an event is never treated as a handshake.
func TestEventsAreNotHandshakes(t *testing.T) {
	withLearnedSecret := func(provider string) func(*eventhook.Source) {
		return func(s *eventhook.Source) {
			verifiedAs(unsigned(provider))(s)
			s.LearnedSecrets = []eventhook.Secret{eventhook.NewSecret("learned-before")}
		}
	}
	for _, c := range []struct {
		claim, provider, query, body string
		headers                      []string
	}{
		{"monday's event with a challenge", "monday", "", `{"challenge":"a","event":{"type":"x"}}`, nil},
		{"monday's event with a nested challenge", "monday", "", `{"event":{"challenge":"a"}}`, nil},
		{"slack's event with a challenge", "slack", "", `{"type":"event_callback","challenge":"a"}`, nil},
		{"slack's event with a nested url_verification", "slack", "", `{"type":"event_callback","event":{"type":"url_verification","challenge":"a"}}`, nil},
		{"slack's form", "slack", "", "type=url_verification&challenge=a", []string{"Content-Type", formType}},
		{"zoom's event with a token", "zoom", "", `{"event":"meeting.started","payload":{"plainToken":"a"}}`, nil},
		{"twitch's notification with a challenge", "twitch", "", `{"challenge":"a"}`, []string{"Twitch-Eventsub-Message-Type", "notification"}},
		{"graph's notification at a URL with a token", "microsoft-graph", "validationToken=a", `{"value":[]}`, nil},
		{"smartsheet's event with a challenge", "smartsheet", "", `{"challenge":"a","events":[]}`, nil},
		{"smartsheet's event with the header", "smartsheet", "", `{"events":[]}`, []string{"Smartsheet-Hook-Challenge", "a"}},
		{"xero's events", "xero", "", `{"events":[{}]}`, nil},
		{"xero's event without a list", "xero", "", `{"events":null}`, nil},
		{"xero's event with a nested list", "xero", "", `{"data":{"events":[]}}`, nil},
		{"adyen's notification", "adyen", "", `{"notificationItems":[{"NotificationRequestItem":{}}]}`, nil},
		{"discord's component", "discord", "", `{"type":1,"token":"a","data":{}}`, nil},
		{"discord's type without a token", "discord", "", `{"type":1,"id":"1"}`, nil},
		{"discord's command", "discord", "", `{"type":2,"token":"a","id":"1"}`, nil},
		{"discord's webhook event of type 0", "discord", "", `{"type":0,"event":{}}`, nil},
		{"discord's type as a string", "discord", "", `{"type":"1","token":"a"}`, nil},
		{"event grid's notification", "azure-event-grid", "", `[{"eventType":"Microsoft.EventGrid.SubscriptionValidationEvent","data":{"validationCode":"a"}}]`, []string{"Aeg-Event-Type", "Notification"}},
		{"google's notification", "google-drive-calendar", "", "", []string{"X-Goog-Resource-State", "exists"}},
		{"google's sync with a body", "google-drive-calendar", "", "{}", []string{"X-Goog-Resource-State", "sync"}},
		{"woocommerce's event in JSON", "woocommerce", "", `{"webhook_id":1}`, []string{"Content-Type", "application/json"}},
		{"sns's notification", "aws-sns", "", `{"Type":"Notification","SubscribeURL":"https://sns.eu-west-1.amazonaws.com/?Action=ConfirmSubscription"}`, nil},
		{"okta's event with a challenge", "okta", "", `{}`, []string{"X-Okta-Verification-Challenge", "a"}},
		{"notion's event with a token", "notion", "", `{"verification_token":"secret_12345","id":"1"}`, nil},
		{"notion's token when the source has one", "notion", "", `{"verification_token":"secret_12345"}`, nil},
		{"asana's event with a secret when the source has one", "asana", "", `{"events":[]}`, []string{"X-Hook-Secret", "0123456789"}},
		{"a handshake of another provider", "github", "challenge=a&hub.challenge=a&validationToken=a&crc_token=a", `{"challenge":"a"}`, nil},
	} {
		t.Run(c.claim, func(t *testing.T) {
			r := newFixture(t, withLearnedSecret(c.provider))
			r.accepted(t, unsignedRequest("POST", c.query, c.body, c.headers...))
			wantCount(t, "handshakes", r.observer.outcomes[ingest.OutcomeHandshake], 0)
			wantList(t, "confirmed", r.confirmer.calls(), "")
			wantList(t, "learned", r.learner.learned, "")
		})
	}
}

// FuzzHandshake sends arbitrary requests to sources of all providers. The status must be one of
// the contract, and an answered handshake must store no event and have a safe response.
func FuzzHandshake(f *testing.F) {
	fixtures := map[string]*fixture{}
	for _, c := range testCases(f) {
		if fixtures[c.Spec.Provider] == nil && c.Path == "" {
			fixtures[c.Spec.Provider] = newFixture(f, verifiedAs(unsigned(c.Spec.Provider)), limit(1_000_000, 60_000_000, 1_000_000))
		}
		for name, value := range c.Headers {
			f.Add(c.Spec.Provider, c.Method, c.Query, name, value, c.Body)
		}
		f.Add(c.Spec.Provider, c.Method, c.Query, "", "", c.Body)
	}
	f.Fuzz(func(t *testing.T, provider, method, query, name, value, body string) {
		r := fixtures[provider]
		if r == nil || method == "" || strings.ContainsAny(value+name, "\r\n\x00") {
			return // net/http refuses these
		}
		req := unsignedRequest("POST", query, body, name, value)
		req.Method = method
		r.observer.mu.Lock()
		clear(r.observer.outcomes)
		r.observer.mu.Unlock()
		r.store.set(func(s *store) { s.events, s.keys = nil, map[scopedKey]eventhook.EventID{} })
		w := r.send(req)
		stored, handshakes := len(r.store.stored()), r.observer.outcomes[ingest.OutcomeHandshake]
		if stored+handshakes > 1 || (w.Code < 300) != (stored+handshakes == 1) || !slices.Contains(statuses, w.Code) {
			t.Fatalf("answered %d with %d handshakes and %d events", w.Code, handshakes, stored)
		}
		if handshakes == 1 {
			wantSafe(t, w)
		}
	})
}
