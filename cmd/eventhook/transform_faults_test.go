package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/eventhook/eventhook/internal/pgtest"
)

// publishData publishes an event with data, which is JSON, and returns its id.
func (i *instance) publishData(eventType, data string) (event string) {
	i.t.Helper()
	var answer struct {
		EventID string `json:"event_id"`
	}
	body := json.RawMessage(fmt.Sprintf(`{"event_type":%q,"data":%s}`, eventType, data))
	if status := i.call(http.MethodPost, "/events", body, &answer); status != http.StatusAccepted {
		i.t.Fatalf("publishing was answered %d, want 202", status)
	}
	return answer.EventID
}

// A transform that has no result makes its delivery dead. The receiver gets no request, and
// last_error says why. Other deliveries go on.
func TestFaultsOfTransforms(t *testing.T) {
	// On a slow machine the transforms that are stopped would use up the tenant's processor time.
	gateway := startDelivering(t, pgtest.New(t), "EVENTHOOK_EVALUATION_PROCESSORS=100")
	receiver := newSubscriber(t)
	of := func(language, expression string) string {
		raw, err := json.Marshal(map[string]any{"type": language, "expression": expression})
		if err != nil {
			t.Fatal(err)
		}
		return `"disable_after_failures":0,"transform":` + string(raw)
	}
	const stopped, tooLarge = "transform: the script was stopped: it ran longer than 100ms", "transform: its result is larger than 1 MiB"
	for n, c := range []struct{ claim, language, expression, lastError string }{
		{"a function of another type", "jmespath", "length(data.amount)", "transform: invalid type for: 12.5"},
		{"no result", "jmespath", "data.none", "transform: its result is null, so there is no body to send"},
		{"a result that doubles until it is too large", "jmespath", strings.Repeat("[@, @] | ", 16) + "@", tooLarge},
		{"an exception", "javascript", "function transform(e) { throw new Error('no customer') }", "no customer"},
		{"10 MB", "javascript", "function transform(e) { return 'x'.repeat(10 << 20) }", tooLarge},
		{"no end", "javascript", "function transform(e) { for (;;) {} }", stopped},
		{"too much memory", "javascript", "function transform(e) { const list = []; for (;;) list.push('x'.repeat(1 << 20) + list.length) }", "transform: "},
	} {
		t.Run(c.claim, func(t *testing.T) {
			gateway.t = t
			eventType := fmt.Sprintf("transform.n%d", n)
			gateway.subscribe(receiver.url, eventType, of(c.language, c.expression))
			d := gateway.deliveryOf(gateway.publishData(eventType, `{"amount":12.5}`))
			// A slow machine stops a result before it is too large.
			isExpected := strings.Contains(deref(d.LastError), c.lastError) || c.lastError == tooLarge && deref(d.LastError) == stopped
			if d.Status != "dead" || len(d.Attempts) != 1 || !isExpected || !strings.HasPrefix(deref(d.LastError), "transform: ") {
				t.Fatalf("got %s after %d attempts, %q; want dead after one, %q", d.Status, len(d.Attempts), deref(d.LastError), c.lastError)
			}
			if a := d.Attempts[0]; deref(a.ErrorClass) != "transform" || a.StatusCode != nil || deref(a.Error) != deref(d.LastError) {
				t.Errorf("got the attempt %+v, want the class transform without an answer", a)
			}
		})
	}
	gateway.t = t
	if n := receiver.count(requestsOf); n > 0 {
		t.Errorf("the receiver got %d requests, want none", n)
	}
	for _, language := range []string{"jmespath", "javascript"} {
		expression := map[string]string{"jmespath": "{id: event_id, n: data.amount}", "javascript": "const transform = e => ({id: e.event_id, n: e.data.amount})"}[language]
		gateway.subscribe(receiver.url, language+".made", of(language, expression))
		for range 3 { // the first one in a script process
			if d := gateway.deliveryOf(gateway.publishData(language+".made", `{"amount":12.5}`)); d.Status != "success" {
				t.Errorf("%s, afterwards: got %s, %q; want success", language, d.Status, deref(d.LastError))
			}
		}
	}
}

// A source or category with control characters, which receivers might print or log, is refused.
func TestSourcesWithControlCharacters(t *testing.T) {
	gateway := startDelivering(t, pgtest.New(t))
	receiver := newSubscriber(t)
	gateway.subscribe(receiver.url, "sourced", `"format":"slack"`)
	for _, c := range []struct{ member, value string }{{"source", `a\nb`}, {"source", `\u001b[31m`}, {"source", `a\u009bb`}, {"category", `a\r\nX-Evil: 1`}} {
		body := json.RawMessage(fmt.Sprintf(`{"event_type":"sourced","data":{},%q:"%s"}`, c.member, c.value))
		if status := gateway.call(http.MethodPost, "/events", body, nil); status != http.StatusUnprocessableEntity {
			t.Errorf("%s %s: got %d, want 422", c.member, c.value, status)
		}
	}
	if d := gateway.deliveryOf(gateway.publishData("sourced", `{"summary":"hi"}`)); d.Status != "success" || receiver.count(requestsOf) != 1 {
		t.Errorf("an event without a source: got %s and %d requests, want one success", d.Status, receiver.count(requestsOf))
	}
}
