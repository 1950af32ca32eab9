package ingest_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/verify"
)

const (
	formType      = "application/x-www-form-urlencoded"
	cloudType     = "application/cloudevents+json"
	multipartType = `multipart/form-data; boundary="XX"`
)

func multipart(parts ...string) string {
	var b strings.Builder
	for _, part := range parts {
		name, value, _ := strings.Cut(part, "=")
		b.WriteString("--XX\r\nContent-Disposition: form-data; name=\"" + name + "\"\r\n\r\n" + value + "\r\n")
	}
	return b.String() + "--XX--\r\n"
}

func TestEventType(t *testing.T) {
	own := func(s *eventhook.Source) { s.EventTypePaths = []string{"header.x-topic", "body.meta.0.kind"} }
	inCloud := func(s *eventhook.Source) { s.EventTypePaths = []string{"cloudevent.data.kind"} }
	xmlKind := func(s *eventhook.Source) { s.EventTypePaths = []string{"body.order.kind"} }
	const all = `{"event_type":"5","action":"4","event":"3","type":"2","meta":[{"kind":"1"}]}`
	for _, c := range []struct {
		claim   string
		source  func(*eventhook.Source)
		body    string
		headers []string
		want    string
	}{
		{"the source's first path", own, all, []string{"X-Topic", "0", "X-Event-Type", "6"}, "0"},
		{"the source's second path", own, all, []string{"X-Event-Type", "6"}, "1"},
		{"paths of the source without a value", own, `{"type":"2"}`, []string{"X-Event-Type", "6"}, "6"},
		{"x-event-type", open, all, []string{"X-Webhook-Event", "9", "X-Stripe-Event", "8", "X-GitHub-Event", "7", "X-Event-Type", "6"}, "6"},
		{"x-github-event", open, all, []string{"X-Webhook-Event", "9", "X-Stripe-Event", "8", "X-GitHub-Event", "7"}, "7"},
		{"x-stripe-event", open, all, []string{"X-Webhook-Event", "9", "X-Stripe-Event", "8"}, "8"},
		{"x-webhook-event", open, all, []string{"X-Webhook-Event", "9"}, "9"},
		{"ce-type", open, all, []string{"Ce-Type", "10"}, "10"},
		{"ce-type after the other headers", open, all, []string{"Ce-Type", "10", "X-Webhook-Event", "9"}, "9"},
		{"a CloudEvent in a body", open, `{"specversion":"1.0","id":"1","source":"s","type":"made"}`, []string{"Content-Type", cloudType}, "made"},
		{"a CloudEvent's data", inCloud, `{"specversion":"1.0","id":"1","source":"s","type":"made","data":{"kind":"k"}}`, []string{"Content-Type", cloudType}, "k"},
		{"a CloudEvent's data in binary mode", inCloud, `{"kind":"k"}`, []string{"Ce-Specversion", "1.0", "Ce-Id", "1", "Ce-Source", "s", "Ce-Type", "made"}, "k"},
		{"XML", xmlKind, `<order><kind>made</kind></order>`, []string{"Content-Type", "text/xml; charset=utf-8"}, "made"},
		{"an empty header does not count", open, all, []string{"X-Event-Type", "", "X-Webhook-Event", "9"}, "9"},
		{"type", open, all, nil, "2"},
		{"event", open, `{"event_type":"5","action":"4","event":"3"}`, nil, "3"},
		{"action", open, `{"event_type":"5","action":"4"}`, nil, "4"},
		{"event_type", open, `{"event_type":"5"}`, nil, "5"},
		{"a number", open, `{"type":12.50}`, nil, "12.50"},
		{"values that are neither strings nor numbers", open, `{"type":true,"event":{"a":1},"action":null,"event_type":[1]}`, nil, ""},
		{"a form's field", open, "type=a%20b", []string{"Content-Type", formType}, "a b"},
		{"a multipart field", open, multipart("type=a"), []string{"Content-Type", multipartType}, "a"},
		{"text", open, "type", nil, ""},
		{"an empty body", open, "", nil, ""},
		{"malformed JSON and a header", open, `{"type":"a"`, []string{"Content-Type", "application/json", "X-Event-Type", "b"}, "b"},
		{"malformed JSON without a header", open, `{"type":"a"`, []string{"Content-Type", "application/json"}, ""},
		{"github's preset", provider("github"), `{"action":"opened"}`, []string{"X-GitHub-Event", "issues", "X-Event-Type", "x"}, "issues"},
		{"stripe's preset", provider("stripe"), `{"type":"charge"}`, []string{"X-Event-Type", "x"}, "charge"},
		{"not UTF-8", open, "", []string{"X-Event-Type", "a\xffb"}, `a\xffb`},
		{"NUL", open, `{"type":"a\u0000b"}`, nil, `a\x00b`},
		{"truncated before a character", open, `{"type":"` + strings.Repeat("x", 254) + `ü"}`, nil, strings.Repeat("x", 254)},
		{"a long type, truncated before a character", open, `{"type":"` + strings.Repeat("x", 254) + `ü` + strings.Repeat("x", 100) + `"}`, nil, strings.Repeat("x", 254)},
		{"truncated to 255 bytes", open, `{"type":"` + strings.Repeat("x", 100_000) + `"}`, nil, strings.Repeat("x", 255)},
		{"truncated after it was escaped", open, "", []string{"X-Event-Type", strings.Repeat("\x80", 300)}, strings.Repeat(`\x80`, 64)[:255]},
	} {
		t.Run(c.claim, func(t *testing.T) {
			got := newFixture(t, c.source).accepted(t, webhook(c.body, c.headers...)).EventType
			if got != c.want || !utf8.ValidString(got) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestIdempotencyKey(t *testing.T) {
	keys := func(paths ...string) func(*eventhook.Source) {
		return func(s *eventhook.Source) { s.IdempotencyKeyPaths = paths }
	}
	github, stripe := provider("github"), provider("stripe")
	ownCloud := func(s *eventhook.Source) {
		stripe(s)
		s.IdempotencyKeyPaths = []string{"cloudevent.id"}
	}
	ownOfGitHub := func(s *eventhook.Source) {
		github(s)
		s.IdempotencyKeyPaths = []string{"body.id"}
	}
	for _, c := range []struct {
		claim   string
		source  func(*eventhook.Source)
		body    string
		headers []string
		want    string
	}{
		{"no paths", keys(), `{"id":"a"}`, []string{"X-Request-Id", "b"}, ""},
		{"a header", keys("header.x-request-id", "body.id"), `{"id":"a"}`, []string{"X-Request-Id", "b"}, "b"},
		{"JSON", keys("header.x-request-id", "body.id"), `{"id":"a"}`, nil, "a"},
		{"a number as it is written", keys("body.id"), `{"id":12345678901234567890}`, nil, "12345678901234567890"},
		{"the second path", keys("body.id", "body.data.0.id"), `{"id":null,"data":[{"id":7}]}`, nil, "7"},
		{"JSON as a form", keys("body.id"), ` {"id":"a"}`, []string{"Content-Type", formType}, "a"},
		{"JSON as multipart", keys("body.id"), `{"id":"a"}`, []string{"Content-Type", multipartType}, "a"},
		{"JSON as XML", keys("body.id"), `{"id":"a"}`, []string{"Content-Type", "text/xml"}, "a"},
		{"a form's field", keys("body.id"), "a=1&id=x%26y", []string{"Content-Type", formType}, "x&y"},
		{"a multipart field", keys("body.id"), multipart("a=1", "id=x"), []string{"Content-Type", multipartType}, "x"},
		{"a CloudEvent's id and source", keys("cloudevent.source + cloudevent.id"), `{"specversion":"1.0","id":"1","source":"s","type":"t"}`, []string{"Content-Type", cloudType}, "s.1"},
		{"a CloudEvent's id and source in binary mode", keys("cloudevent.source + cloudevent.id"), ``, []string{"Ce-Specversion", "1.0", "Ce-Id", "1", "Ce-Source", "s", "Ce-Type", "t"}, "s.1"},
		{"a CloudEvent from a provider", ownCloud, `{"specversion":"1.0","id":"1","source":"s","type":"t"}`, []string{"Content-Type", cloudType}, "1"},
		{"not a CloudEvent", keys("cloudevent.id", "body.id"), `{"specversion":"1.0","id":"1","source":"s","type":"t"}`, nil, "1"},
		{"malformed JSON", keys("body.id"), `{"id":"a"`, []string{"Content-Type", "application/json"}, ""},
		{"none of the paths", keys("header.x-a", "body.b"), `{"id":"a"}`, nil, ""},
		{"github's preset", github, `{"id":"a"}`, []string{"X-GitHub-Delivery", "b"}, "b"},
		{"stripe's preset", stripe, `{"id":"evt_1"}`, nil, "evt_1"},
		{"stripe's preset with another content type", stripe, `{"id":"evt_1"}`, []string{"Content-Type", "text/html"}, "evt_1"},
		{"stripe's preset, as a form", stripe, ` {"id":"evt_1"}`, []string{"Content-Type", "application/x-www-form-urlencoded"}, "evt_1"},
		{"paths of the source instead of the preset's", ownOfGitHub, `{"id":"a"}`, []string{"X-GitHub-Delivery", "b"}, "a"},
		{"255 bytes", keys("header.x-k"), "", []string{"X-K", strings.Repeat("k", 255)}, strings.Repeat("k", 255)},
		{"a path to credentials is ignored", keys("header.authorization", "header.cookie", "body.id"), `{"id":"a"}`, []string{"Authorization", "hunter2", "Cookie", "hunter2"}, "a"},
	} {
		t.Run(c.claim, func(t *testing.T) {
			if got := newFixture(t, c.source).accepted(t, webhook(c.body, c.headers...)).IdempotencyKey; got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestTheVerifiersHeaderIsNotUsedAsAKey(t *testing.T) {
	r := newFixture(t, func(s *eventhook.Source) {
		s.Verifier = verifier(verify.Config{Type: "api_key", Header: "x-key", Values: []string{"hunter2"}})
		s.IdempotencyKeyPaths, s.EventTypePaths = []string{"header.X-KEY"}, []string{"header.x-key"}
	})
	if e := r.accepted(t, webhook("", "X-Key", "hunter2")); e.IdempotencyKey != "" || e.EventType != "" {
		t.Errorf("stored key %q and type %q, want neither", e.IdempotencyKey, e.EventType)
	}
}

func TestAVerifiersCloudEventsHeaderIsNotUsedAsAKey(t *testing.T) {
	r := newFixture(t, func(s *eventhook.Source) {
		s.Verifier = verifier(verify.Config{Type: "api_key", Header: "ce-token", Values: []string{"hunter2"}})
		s.IdempotencyKeyPaths, s.EventTypePaths = []string{"cloudevent.token"}, []string{"cloudevent.token", "cloudevent.type"}
	})
	e := r.accepted(t, webhook("", "Ce-Token", "hunter2", "Ce-Specversion", "1.0", "Ce-Id", "1", "Ce-Source", "s", "Ce-Type", "t"))
	if e.IdempotencyKey != "" || e.EventType != "t" {
		t.Errorf("stored key %q and type %q, want none and t", e.IdempotencyKey, e.EventType)
	}
}

// Different keys stay different for any bytes that they contain, and each can be stored as text of
// at most 255 bytes.
func TestUnusualKeysStayDistinct(t *testing.T) {
	r := newFixture(t, func(s *eventhook.Source) { s.IdempotencyKeyPaths = []string{"header.x-k", "body.k"} })
	long := strings.Repeat("k", 255)
	for _, key := range []string{long, long + "a", long + "b", strings.Repeat(long, 200), "a\xff", "a\xfe", `a\xff`, "a", "ä", "a\u0308"} {
		e := r.accepted(t, webhook("", "X-K", key))
		if e.Status == eventhook.EventDuplicate {
			t.Errorf("%.20q is a duplicate, want a key of its own", key)
		}
		if len(e.IdempotencyKey) > eventhook.MaxKeyBytes || !utf8.ValidString(e.IdempotencyKey) {
			t.Errorf("%.20q is stored as %q, want text of at most 255 bytes", key, e.IdempotencyKey)
		}
		if again := r.accepted(t, webhook("", "X-K", key)); again.Status != eventhook.EventDuplicate {
			t.Errorf("%.20q, sent again: got %q, want a duplicate", key, again.Status)
		}
	}
	for _, body := range []string{`{"k":"a\u0000"}`, `{"k":"a\\x00"}`} {
		if e := r.accepted(t, webhook(body)); e.Status == eventhook.EventDuplicate || strings.Contains(e.IdempotencyKey, "\x00") {
			t.Errorf("%s: got status %q, key %q; want a storable key of its own", body, e.Status, e.IdempotencyKey)
		}
	}
}

// TestKeyAndSignatureAreParsedAlike sends a body that is both a form, with the signature of
// another request, and JSON, with a key that the sender has chosen. Verifier and key paths must
// both parse it as JSON.
func TestKeyAndSignatureAreParsedAlike(t *testing.T) {
	mac := hmac.New(sha256.New, []byte("k"))
	mac.Write([]byte("1700000000token"))
	sig := hex.EncodeToString(mac.Sum(nil))
	r := newFixture(t, verifiedAs(verify.Spec{Provider: "mailgun", Secrets: []string{"k"}}))
	body := `{"x":"&timestamp=1700000000&token=token&signature=` + sig + `&","signature":{"signature":"chosen"}}`
	if w := r.send(unsignedRequest("POST", "", body, "Content-Type", "application/x-www-form-urlencoded")); w.Code != 401 {
		t.Errorf("answered %d, want 401: the signature in the JSON is wrong", w.Code)
	}
}
