package send_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/cpushare"
	"github.com/eventhook/eventhook/internal/egress"
	"github.com/eventhook/eventhook/internal/script"
	"github.com/eventhook/eventhook/outbound/auth"
	"github.com/eventhook/eventhook/outbound/send"
	"github.com/eventhook/eventhook/outbound/transform"
)

// recipe is a subscription of docs/recipes.md.
type recipe struct {
	Name          string          `json:"name"`
	URL           string          `json:"url"`
	EventTypes    []string        `json:"event_types"`
	AuthHeader    string          `json:"auth_header"`
	Auth          *eventhook.Auth `json:"auth"`
	SigningSecret string          `json:"signing_secret"`
	eventhook.SubscriptionSettings
}

// recipes returns the subscriptions of docs/recipes.md by their names.
func recipes(t *testing.T) map[string]eventhook.Subscription {
	t.Helper()
	text, err := os.ReadFile("../../docs/recipes.md")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]eventhook.Subscription{}
	for _, block := range regexp.MustCompile("(?ms)^```json\n(.*?)^```$").FindAllStringSubmatch(string(text), -1) {
		d := json.NewDecoder(strings.NewReader(block[1]))
		d.DisallowUnknownFields()
		var r recipe
		if err := d.Decode(&r); err != nil {
			t.Fatalf("%s: %v", block[1], err)
		}
		s := eventhook.Subscription{ID: eventhook.NewID[eventhook.Subscription](eventTime), Name: r.Name, Status: eventhook.SubscriptionActive, EventTypes: r.EventTypes, SubscriptionSettings: r.SubscriptionSettings}
		s.URL, s.AuthHeader = eventhook.NewSecret(r.URL), eventhook.NewSecret(r.AuthHeader)
		if r.Auth != nil {
			s.Auth = r.Auth.Seal()
		}
		if r.SigningSecret != "" {
			s.Signing = []eventhook.SigningSecret{{Secret: eventhook.NewSecret(r.SigningSecret)}}
		}
		s = s.WithGeneratedSecrets()
		if faults := s.Validate(); len(faults) > 0 {
			t.Errorf("%s: %v", r.Name, faults)
		}
		all[r.Name] = s
	}
	return all
}

// productEvents are events for the recipes: one as a publisher would write it, and some with
// texts and data that are hard to show.
func productEvents(eventType string) map[string]*eventhook.Event {
	of := func(data string, change ...func(*eventhook.Event)) *eventhook.Event {
		e := newEvent()
		e.EventType, e.Body, e.Envelope = eventType, []byte(data), &eventhook.Envelope{Source: "erp", Category: "money", Scope: []byte(`"customer-42/eu"`)}
		for _, c := range change {
			c(e)
		}
		return e
	}
	return map[string]*eventhook.Event{
		"usual":         of(`{"summary":"Payment of 12 EUR failed","amount":12,"severity":"critical"}`),
		"hostile texts": of(`{"summary":"<!channel> <https://evil.example|click> & ` + "```" + `","severity":"fatal"}`),
		"long":          of(`{"summary":"` + strings.Repeat("&é", 20_000) + `","lines":"` + strings.Repeat("<\\u0001 ", 20_000) + `"}`),
		"large":         of(`{"summary":"s","blob":"` + strings.Repeat("x", 1<<20) + `"}`),
		"not an object": of(`["summary", 7]`),
		"no data":       of(`null`, func(e *eventhook.Event) { e.Envelope, e.CorrelationID = nil, "" }),
	}
}

func member[T any](t *testing.T, of map[string]any, name string) T {
	t.Helper()
	v, ok := of[name].(T)
	if !ok {
		t.Errorf("%s: got %T, want %T", name, of[name], v)
	}
	return v
}

// checkSlack checks a message by the rules of Block Kit.
func checkSlack(t *testing.T, _ received, body map[string]any) {
	t.Helper()
	length := func(what, text string, limit int) {
		if n := utf8.RuneCountInString(text); n == 0 || n > limit {
			t.Errorf("%s has %d characters, want 1 to %d", what, n, limit)
		}
		if strings.ContainsAny(text, "<>") || regexp.MustCompile(`&(?:[^agl]|a[^m]|$)`).MatchString(text) {
			t.Errorf("%s is not escaped", what)
		}
	}
	length("text", member[string](t, body, "text"), 4000)
	blocks := member[[]any](t, body, "blocks")
	if len(blocks) == 0 || len(blocks) > 50 {
		t.Errorf("%d blocks", len(blocks))
	}
	for _, one := range blocks {
		b, _ := one.(map[string]any)
		switch kind := member[string](t, b, "type"); kind {
		case "header":
			text := member[map[string]any](t, b, "text")
			if length("header", member[string](t, text, "text"), 150); text["type"] != "plain_text" {
				t.Errorf("a header of the type %v", text["type"])
			}
		case "section":
			text := member[map[string]any](t, b, "text")
			if length("section", member[string](t, text, "text"), 3000); text["type"] != "mrkdwn" {
				t.Errorf("a section of the type %v", text["type"])
			}
		case "context":
			if n := len(member[[]any](t, b, "elements")); n == 0 || n > 10 {
				t.Errorf("%d elements", n)
			}
		default:
			t.Errorf("a block of the type %s", kind)
		}
	}
}

// checkTeams checks a message with an Adaptive Card.
func checkTeams(t *testing.T, r received, body map[string]any) {
	t.Helper()
	if len(r.body) > 28_000 || body["type"] != "message" {
		t.Errorf("a body of %d bytes and the type %v", len(r.body), body["type"])
	}
	for _, one := range member[[]any](t, body, "attachments") {
		a, _ := one.(map[string]any)
		card := member[map[string]any](t, a, "content")
		if a["contentType"] != "application/vnd.microsoft.card.adaptive" || card["type"] != "AdaptiveCard" || card["version"] == nil {
			t.Errorf("got the attachment %v", a)
		}
		for _, e := range member[[]any](t, card, "body") {
			if kind := e.(map[string]any)["type"]; kind != "TextBlock" && kind != "FactSet" {
				t.Errorf("an element of the type %v", kind)
			}
		}
	}
}

// checkPagerDuty checks an alert event of the Events API v2.
func checkPagerDuty(t *testing.T, r received, body map[string]any) {
	t.Helper()
	payload := member[map[string]any](t, body, "payload")
	if body["routing_key"] != "R0123456789ABCDEF0123456789ABCDE" || r.header.Get("Authorization") != "" {
		t.Errorf("routing key %v and Authorization %q, want the key in the body only", body["routing_key"], r.header.Get("Authorization"))
	}
	if !slices.Contains([]any{"trigger", "acknowledge", "resolve"}, body["event_action"]) || !slices.Contains([]any{"critical", "error", "warning", "info"}, payload["severity"]) {
		t.Errorf("action %v, severity %v", body["event_action"], payload["severity"])
	}
	for name, limit := range map[string]int{"summary": 1024, "source": 1024} {
		if n := utf8.RuneCountInString(member[string](t, payload, name)); n == 0 || n > limit {
			t.Errorf("%s has %d characters, want 1 to %d", name, n, limit)
		}
	}
	if n := len(member[string](t, body, "dedup_key")); n == 0 || n > 255 || len(r.body) > 512<<10 {
		t.Errorf("a dedup_key of %d characters in a body of %d bytes", n, len(r.body))
	}
	if _, err := time.Parse(time.RFC3339, member[string](t, payload, "timestamp")); err != nil {
		t.Error(err)
	}
}

// newTokenEndpoint starts the token endpoint of ServiceNow, which issues one token to one
// client.
func newTokenEndpoint(t *testing.T) (url string) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if id, secret, ok := r.BasicAuth(); !ok || id != "0c1a3f5e7b9d" || secret != "s3cret-of-the-client" || r.FormValue("grant_type") != "client_credentials" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = io.WriteString(w, `{"access_token":"issued-t0ken","token_type":"Bearer","expires_in":1799}`)
	}))
	t.Cleanup(s.Close)
	return s.URL + "/oauth_token.do"
}

// checkServiceNow checks a request to the Table API.
func checkServiceNow(t *testing.T, r received, body map[string]any) {
	t.Helper()
	isAuthorized := slices.Contains([]string{"Basic ZXZlbnRob29rOnMzY3JldA==", "Bearer issued-t0ken"}, r.header.Get("Authorization"))
	if r.path != "/api/now/table/incident" || !isAuthorized || r.header.Get("Accept") != "application/json" {
		t.Errorf("got %s with %v", r.path, r.header)
	}
	for name := range body {
		if !slices.Contains([]string{"short_description", "description", "urgency", "correlation_id", "correlation_display"}, name) {
			t.Errorf("the field %s", name)
		}
	}
}

// checkCloudEvents checks a CloudEvent in structured mode.
func checkCloudEvents(t *testing.T, r received, body map[string]any) {
	t.Helper()
	if r.header.Get("Content-Type") != "application/cloudevents+json" || body["specversion"] != "1.0" {
		t.Errorf("got %s, version %v", r.header.Get("Content-Type"), body["specversion"])
	}
	for _, name := range []string{"id", "source", "type"} {
		if member[string](t, body, name) == "" {
			t.Errorf("%s is empty", name)
		}
	}
	for name, v := range body {
		if _, isText := v.(string); name != "data" && (!isText || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789") != "") {
			t.Errorf("the attribute %s is %v", name, v)
		}
	}
}

// checkCycles verifies a request as receivers of Cycles do.
func checkCycles(t *testing.T, r received, body map[string]any) {
	t.Helper()
	mac := hmac.New(sha256.New, []byte("cycles-signing-secret-0123456789"))
	mac.Write(r.body)
	if want := "sha256=" + hex.EncodeToString(mac.Sum(nil)); r.header.Get("X-Cycles-Signature") != want {
		t.Errorf("got the signature %s, want %s", r.header.Get("X-Cycles-Signature"), want)
	}
	if r.header.Get("X-Cycles-Event-Id") != body["event_id"] || r.header.Get("X-Cycles-Event-Type") != body["event_type"] || body["event_id"] == nil || r.header.Get("Content-Type") != "application/json" {
		t.Errorf("got %v with %v", body["event_id"], r.header)
	}
	for _, name := range []string{"timestamp", "tenant_id"} {
		member[string](t, body, name)
	}
}

// checkBrokkr checks a request as receivers of Brokkr do.
func checkBrokkr(t *testing.T, r received, body map[string]any) {
	t.Helper()
	if r.header.Get("Authorization") != "Bearer brokkr-t0ken" || r.header.Get("X-Brokkr-Event-Type") != body["event_type"] || r.header.Get("X-Brokkr-Delivery-Id") == "" {
		t.Errorf("got %v", r.header)
	}
	if _, hasData := body["data"]; len(body) != 4 || !hasData || member[string](t, body, "id") == "" {
		t.Errorf("got the members %v, want id, event_type, timestamp and data", body)
	}
	if _, err := time.Parse(time.RFC3339, member[string](t, body, "timestamp")); err != nil {
		t.Error(err)
	}
}

func TestRecipes(t *testing.T) {
	checks := map[string]struct {
		event string // type
		check func(*testing.T, received, map[string]any)
	}{
		"slack": {"payment.failed", checkSlack}, "teams": {"payment.failed", checkTeams}, "pagerduty": {"check.failed", checkPagerDuty},
		"servicenow": {"check.failed", checkServiceNow}, "servicenow-oauth": {"check.failed", checkServiceNow},
		"broker": {"order.made", checkCloudEvents}, "cycles": {"budget.exhausted", checkCycles}, "brokkr": {"deployment.applied", checkBrokkr},
	}
	all := recipes(t)
	if len(all) != len(checks) {
		t.Errorf("the page has %d recipes, want %d", len(all), len(checks))
	}
	pool := script.NewPool(1, 100*script.TimeLimit)
	defer pool.Close()
	run := transform.NewRunner(pool, 2, cpushare.New(cpushare.DefaultConfig(), nil, time.Now), time.Now)
	receiver := newSink(t, answer(http.StatusAccepted, "ok"))
	tokens, client := newTokenEndpoint(t), egress.New(egress.Policy{AllowPrivate: true})
	for name, s := range all {
		if a, err := eventhook.OpenAuth(s.Auth); err == nil && a != nil && a.TokenURL != "" {
			a.TokenURL = tokens
			s.Auth = a.Seal()
		}
		path := regexp.MustCompile(`^https://[^/]*`).ReplaceAllString(s.URL.Reveal(), "")
		s.URL = eventhook.NewSecret(receiver.URL + path)
		sends := sender{send.NewHTTPSender(send.Deps{Client: client, Authenticator: auth.New(auth.Deps{Client: client, Now: time.Now}), Transformer: run, UserAgent: "eventhook/1.2.3", Now: time.Now})}
		for claim, e := range productEvents(checks[name].event) {
			t.Run(fmt.Sprintf("%s with %s", name, claim), func(t *testing.T) {
				if claim == "large" && s.Transform != nil {
					t.Skip("larger than the output of a transform may be")
				}
				if a := sends.Send(t.Context(), sendingOf(&s, e, 1)); !a.Succeeded() {
					t.Fatalf("got %+v", a)
				}
				r := receiver.last(t)
				var body map[string]any
				if err := json.Unmarshal(r.body, &body); err != nil {
					t.Fatalf("%v in %.200s", err, r.body)
				}
				checks[name].check(t, r, body)
				sends.Send(t.Context(), sendingOf(&s, e, 2))
				if again := receiver.last(t); string(again.body) != string(r.body) {
					t.Errorf("the second attempt has another body")
				}
			})
		}
	}
}

func TestResultsOfTransforms(t *testing.T) {
	receiver := newSink(t, answer(200, ""))
	for _, c := range []struct {
		expression, body, contentType string
		class                         eventhook.ErrorClass
	}{
		{`{"a":1}`, `{"a":1}`, "application/json", ""},
		{`[]`, `[]`, "application/json", ""},
		{`"a\u00e9"`, `aé`, "text/plain; charset=utf-8", ""},
		{`null`, ``, "", eventhook.ErrorTransform},
		{`fails`, ``, "", eventhook.ErrorTransform},
		{`busy`, ``, "", eventhook.ErrorBusy},
	} {
		s := newSubscription(receiver.URL)
		s.Transform = &eventhook.Transform{Type: eventhook.TransformJMESPath, Expression: c.expression}
		a := newSender(time.Now).Send(t.Context(), sendingOf(s, newEvent(), 1))
		if a.ErrorClass != c.class || c.class != "" && !strings.HasPrefix(a.Error, "transform: ") {
			t.Errorf("%s: got %+v, want the class %q", c.expression, a, c.class)
		}
		if c.class != "" {
			continue
		}
		r := receiver.last(t)
		if string(r.body) != c.body || r.header.Get("Content-Type") != c.contentType || r.header.Get("X-Eventhook-Signature") != plainSignature(r.body, currentSecret) {
			t.Errorf("%s: received %s with %v", c.expression, r.body, r.header)
		}
	}
	if len(receiver.got) > 0 {
		t.Error("a delivery without a body was sent")
	}
}
