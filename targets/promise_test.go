package targets_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/effects"
)

// promiseTarget returns a promise target with additional members, such as `"resolve":false`.
func promiseTarget(more ...string) string {
	return `{"type":"promise","idempotency_key_path":"body.id"` + strings.Join(append([]string{""}, more...), ",") + `}`
}

func TestPromises(t *testing.T) {
	resolved := func(value string) effects.PromiseOutcome {
		return effects.PromiseOutcome{Key: "7", Status: eventhook.PromiseResolved, Value: []byte(value), Hold: true}
	}
	rejected := func(message string) effects.PromiseOutcome {
		return effects.PromiseOutcome{Key: "7", Status: eventhook.PromiseRejected, Error: message, Hold: true}
	}
	const value, failure = `"value_path":"body.v"`, `"error_path":"body.error"`
	for _, c := range []struct {
		claim  string
		target []string
		body   string
		want   effects.PromiseOutcome
	}{
		{"the whole body by default", nil, `{"id":7, "v":1}`, resolved(`{"id":7, "v":1}`)},
		{"resolve: true is the default", []string{`"resolve":true`}, `{"id":7}`, resolved(`{"id":7}`)},
		{"resolve: false rejects", []string{`"resolve":false`}, `{"id":7}`, rejected("rejected by the webhook")},
		{"on_missing: hold is the default", []string{`"on_missing":"hold"`}, `{"id":7}`, resolved(`{"id":7}`)},
		{
			"on_missing: fail does not hold", []string{`"on_missing":"fail"`}, `{"id":7}`,
			effects.PromiseOutcome{Key: "7", Status: eventhook.PromiseResolved, Value: []byte(`{"id":7}`)},
		},
		{
			"a prefix", []string{`"idempotency_key_prefix":"p:"`}, `{"id":7}`,
			effects.PromiseOutcome{Key: "p:7", Status: eventhook.PromiseResolved, Value: []byte(`{"id":7}`), Hold: true},
		},
		{"a value", []string{value}, `{"id":7,"v":{"n":9007199254740993}}`, resolved(`{"n":9007199254740993}`)},
		{"a string", []string{value}, `{"id":7,"v":"x"}`, resolved(`"x"`)},
		{"false", []string{value}, `{"id":7,"v":false}`, resolved(`false`)},
		{"null", []string{value}, `{"id":7,"v":null}`, resolved(`null`)},
		{"a missing value is null", []string{value}, `{"id":7}`, resolved(`null`)},
		{"a header's value", []string{`"value_path":"header.X-ID"`}, `{"id":7}`, resolved(`"7"`)},
		{"no error resolves", []string{failure}, `{"id":7}`, resolved(`{"id":7}`)},
		{"null is not an error", []string{failure}, `{"id":7,"error":null}`, resolved(`{"id":7,"error":null}`)},
		{"an error that is a string", []string{failure}, `{"id":7,"error":" card \"declined\"\n"}`, rejected(`card "declined"`)},
		{"an error that is an object", []string{failure}, `{"id":7,"error":{"code":5}}`, rejected(`{"code":5}`)},
		{"false is an error", []string{failure}, `{"id":7,"error":false}`, rejected(`false`)},
		{"an error takes precedence over resolve: false", []string{failure, `"resolve":false`}, `{"id":7,"error":"x"}`, rejected("x")},
		{"resolve: false without an error", []string{failure, `"resolve":false`}, `{"id":7}`, rejected("rejected by the webhook")},
		{"an error takes precedence over a value", []string{failure, value}, `{"id":7,"error":"x","v":1}`, rejected("x")},
		{"an error that cannot be stored", []string{failure}, `{"id":7,"error":"a\u0000b"}`, rejected(`a\x00b`)},
		{"a long error", []string{failure}, `{"id":7,"error":"` + strings.Repeat("é", 5000) + `"}`, rejected(strings.Repeat("é", 2048))},
		{"an empty error", []string{failure}, `{"id":7,"error":""}`, rejected("rejected by the webhook")},
	} {
		t.Run(c.claim, func(t *testing.T) {
			got, err := effectOf(t, promiseTarget(c.target...), c.body)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(effects.Effect{Promise: &c.want}, got); diff != "" {
				t.Errorf("effect (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAPromiseWithoutKeyFails(t *testing.T) {
	for _, body := range []string{`{}`, `{"id":null}`, `{"id":""}`, `{"id":{}}`, `{"id":true}`, `hello`, ``} {
		got, err := effectOf(t, promiseTarget(), body)
		if err == nil || !strings.Contains(err.Error(), "body.id") {
			t.Errorf("%s: got %+v, %v; want an error that names body.id", body, got, err)
		}
	}
}
