package verify

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWithDefaults(t *testing.T) {
	for _, c := range []struct{ given, want Config }{
		{Config{Type: "hmac", Header: "X"}, Config{Type: "hmac", Header: "X", Algorithm: "sha256", Encoding: "hex", Separator: ",", Signed: "{body}"}},
		{Config{Type: "hmac", Header: "X", Algorithm: "sha1", Encoding: "base64", Separator: ";", Signed: "{url}{body}"},
			Config{Type: "hmac", Header: "X", Algorithm: "sha1", Encoding: "base64", Separator: ";", Signed: "{url}{body}"}},
		{Config{Type: "timestamped_hmac", Header: "X"}, Config{Type: "timestamped_hmac", Header: "X", Algorithm: "sha256", Encoding: "hex", Separator: ",",
			Signed: "{timestamp}.{body}", TimestampKey: "t", SignatureKey: "v1"}},
		{Config{Type: "public_key", Header: "X", TimestampHeader: "T"}, Config{Type: "public_key", Header: "X", TimestampHeader: "T", Algorithm: "ed25519",
			Encoding: "hex", Separator: ",", Signed: "{timestamp}{body}"}},
		{Config{Type: "url_form_hmac", Header: "X"}, Config{Type: "url_form_hmac", Header: "X", Algorithm: "sha256", Encoding: "hex"}},
		{Config{Type: "standard_webhooks"}, Config{Type: "standard_webhooks", Header: "webhook-signature", SecretEncoding: "base64"}},
		{Config{Type: "jwt"}, Config{Type: "jwt", Header: "Authorization", Prefix: "Bearer ", Algorithm: "RS256"}},
		{Config{Type: "api_key", Header: "X"}, Config{Type: "api_key", Header: "X"}},
	} {
		// Configs print without their fields, so they are compared as structs.
		if diff := cmp.Diff(c.want, c.given.WithDefaults()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.given.Type, diff)
		}
	}
}

// WithDefaults sets only fields that the type uses, so a valid
// Config stays valid.
func TestDefaultsAreValid(t *testing.T) {
	for _, p := range presets {
		r := Resolved{Preset: p, Options: map[string]string{}}
		c := r.complete(Spec{})
		if before, after := fmt.Sprint(c.Validate()), fmt.Sprint(c.WithDefaults().Validate()); before != after {
			t.Errorf("%s %s: faults %s became %s", p.ID, p.Scheme, before, after)
		}
	}
}

func TestFieldsOfATypeAreSorted(t *testing.T) {
	if diff := cmp.Diff([]string{"header", "path", "prefix", "query", "values"}, Fields("api_key")); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
	if got := Fields("nothing"); len(got) != 0 {
		t.Errorf("an unknown type uses %v, want no field", got)
	}
}

func TestPresetCoversBody(t *testing.T) {
	for id, want := range map[string]bool{"github": true, "paypal": false, "twilio": true, "plaid": true, "google-pubsub": false, "gitlab": false, "mailgun": false} {
		if p, _ := FindPreset(id, ""); p.CoversBody() != want {
			t.Errorf("%s: got %t, want %t", id, p.CoversBody(), want)
		}
	}
}
