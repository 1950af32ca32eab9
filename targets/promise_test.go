package targets_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
)

func promiseTarget(change func(*eventhook.Target)) eventhook.Target {
	t := eventhook.Target{Type: "promise", IdempotencyKeyPath: "body.id"}
	if change != nil {
		change(&t)
	}
	return t
}

func TestPromises(t *testing.T) {
	resolved := func(value string) eventhook.PromiseOutcome {
		return eventhook.PromiseOutcome{Key: "7", Status: eventhook.PromiseResolved, Value: []byte(value), Hold: true}
	}
	rejected := func(message string) eventhook.PromiseOutcome {
		return eventhook.PromiseOutcome{Key: "7", Status: eventhook.PromiseRejected, Error: message, Hold: true}
	}
	value := func(t *eventhook.Target) { t.ValuePath = "body.v" }
	failure := func(t *eventhook.Target) { t.ErrorPath = "body.error" }
	for _, c := range []struct {
		claim  string
		target func(*eventhook.Target)
		body   string
		want   eventhook.PromiseOutcome
	}{
		{"the whole body by default", nil, `{"id":7, "v":1}`, resolved(`{"id":7, "v":1}`)},
		{"resolve: true says the same", func(t *eventhook.Target) { t.Resolve = new(true) }, `{"id":7}`, resolved(`{"id":7}`)},
		{"resolve: false rejects", func(t *eventhook.Target) { t.Resolve = new(false) }, `{"id":7}`, rejected("rejected by the webhook")},
		{"on_missing: hold says the same", func(t *eventhook.Target) { t.OnMissing = "hold" }, `{"id":7}`, resolved(`{"id":7}`)},
		{
			"on_missing: fail does not hold", func(t *eventhook.Target) { t.OnMissing = "fail" }, `{"id":7}`,
			eventhook.PromiseOutcome{Key: "7", Status: eventhook.PromiseResolved, Value: []byte(`{"id":7}`)},
		},
		{
			"a prefix", func(t *eventhook.Target) { t.IdempotencyKeyPrefix = "p:" }, `{"id":7}`,
			eventhook.PromiseOutcome{Key: "p:7", Status: eventhook.PromiseResolved, Value: []byte(`{"id":7}`), Hold: true},
		},
		{"a value", value, `{"id":7,"v":{"n":9007199254740993}}`, resolved(`{"n":9007199254740993}`)},
		{"a string", value, `{"id":7,"v":"x"}`, resolved(`"x"`)},
		{"false", value, `{"id":7,"v":false}`, resolved(`false`)},
		{"null", value, `{"id":7,"v":null}`, resolved(`null`)},
		{"no value is null", value, `{"id":7}`, resolved(`null`)},
		{"a header's value", func(t *eventhook.Target) { t.ValuePath = "header.X-ID" }, `{"id":7}`, resolved(`"7"`)},
		{"no error resolves", failure, `{"id":7}`, resolved(`{"id":7}`)},
		{"null is no error", failure, `{"id":7,"error":null}`, resolved(`{"id":7,"error":null}`)},
		{"an error in words", failure, `{"id":7,"error":" card \"declined\"\n"}`, rejected(`card "declined"`)},
		{"an error with parts", failure, `{"id":7,"error":{"code":5}}`, rejected(`{"code":5}`)},
		{"false is an error", failure, `{"id":7,"error":false}`, rejected(`false`)},
		{"an error before resolve: false", func(t *eventhook.Target) { failure(t); t.Resolve = new(false) }, `{"id":7,"error":"x"}`, rejected("x")},
		{"resolve: false without an error", func(t *eventhook.Target) { failure(t); t.Resolve = new(false) }, `{"id":7}`, rejected("rejected by the webhook")},
		{"an error before a value", func(t *eventhook.Target) { failure(t); value(t) }, `{"id":7,"error":"x","v":1}`, rejected("x")},
		{"an error that cannot be stored", failure, `{"id":7,"error":"a\u0000b"}`, rejected(`a\x00b`)},
		{"a long error", failure, `{"id":7,"error":"` + strings.Repeat("é", 5000) + `"}`, rejected(strings.Repeat("é", 2048))},
		{"an empty error", failure, `{"id":7,"error":""}`, rejected("rejected by the webhook")},
	} {
		t.Run(c.claim, func(t *testing.T) {
			got, err := effectOf(t, promiseTarget(c.target), c.body)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(eventhook.Effect{Promise: &c.want}, got); diff != "" {
				t.Errorf("effect (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAPromiseWithoutANameFailsForGood(t *testing.T) {
	for _, body := range []string{`{}`, `{"id":null}`, `{"id":""}`, `{"id":{}}`, `{"id":true}`, `hello`, ``} {
		got, err := effectOf(t, promiseTarget(nil), body)
		if err == nil || !strings.Contains(err.Error(), "body.id") {
			t.Errorf("%s: got %+v, %v; want an error that names body.id", body, got, err)
		}
	}
}
