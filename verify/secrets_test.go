package verify

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
)

func TestMapSecretsFindsEachSecret(t *testing.T) {
	for _, c := range []struct {
		claim  string
		spec   Spec
		places []string
	}{
		{"secrets", Spec{Provider: "github", Secrets: []string{"hush 1", "hush 2"}}, []string{"secrets[0]", "secrets[1]"}},
		{"an option that is secret", Spec{Provider: "meta", Secrets: []string{"hush 1"}, Options: map[string]string{"verify_token": "hush 2"}},
			[]string{"secrets[0]", "options.verify_token"}},
		{"no option that is not", Spec{Provider: "paypal", Options: map[string]string{"webhook_id": "WH-1"}}, nil},
		{"a verifier's secrets", Spec{Verifier: &Config{Type: "hmac", Header: "X", Secrets: []string{"hush 1"}}}, []string{"verifier.secrets[0]"}},
		{"its values", Spec{Verifier: &Config{Type: "api_key", Header: "X", Values: []string{"hush 1", "hush 2"}}}, []string{"verifier.values[0]", "verifier.values[1]"}},
		{"its password", Spec{Verifier: &Config{Type: "basic_auth", Username: "u", Password: "hush 1"}}, []string{"verifier.password"}},
		{"nothing in public keys", Spec{Provider: "discord", PublicKeys: []string{"00"}}, nil},
	} {
		t.Run(c.claim, func(t *testing.T) {
			before, err := c.spec.Sealed()
			if err != nil {
				t.Fatal(err)
			}
			var places []string
			mapped := c.spec.MapSecrets(func(place, secret string) string {
				places = append(places, place)
				return "<" + strings.TrimPrefix(secret, "hush ") + ">"
			})
			if diff := cmp.Diff(c.places, places); diff != "" {
				t.Errorf("places (-want +got):\n%s", diff)
			}
			raw, err := json.Marshal(mapped)
			if err != nil || strings.Contains(string(raw), "hush") {
				t.Errorf("got %s, %v; want no secret left", raw, err)
			}
			after, err := c.spec.Sealed()
			if err != nil || before.Reveal() != after.Reveal() {
				t.Errorf("the spec itself is now %s, %v", after.Reveal(), err)
			}
			public, hidden, err := Describe(eventhook.NewSecret(string(raw)))
			if err != nil || strings.Contains(string(public), "<") || strings.Count(hidden, "u003c") != len(c.places) {
				t.Errorf("Describe returns the secrets %s and the public part %s, %v; want the same places", hidden, public, err)
			}
		})
	}
}
