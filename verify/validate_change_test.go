package verify

import (
	"crypto/elliptic"
	"encoding/hex"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/eventhook/eventhook"
)

func sealedOf(t *testing.T, s Spec) eventhook.Secret {
	t.Helper()
	sealed, err := s.Sealed()
	if err != nil {
		t.Fatal(err)
	}
	return sealed
}

func TestValidateChange(t *testing.T) {
	topic := map[string]string{"topic_arn": "arn:aws:sns:us-east-1:1:t"}
	keys := func(n int) []string { return []string{keySetOn(t, elliptic.P256(), n)} }
	spelled := func(c Config) Spec { return Spec{Verifier: &c} }
	signing := func(n int) Config {
		return Config{Type: "public_key", Header: "X", Algorithm: "ecdsa_sha256", PublicKeys: keys(n)}
	}
	fields := func(n int) Config {
		return Config{Type: "body_hmac", Path: "sig", Signed: fieldsOf(n, ""), Secrets: []string{"s"}}
	}
	twenty := keys(20)
	for _, c := range []struct {
		claim string
		have  *Spec
		want  Spec
		fault []string
	}{
		{"a placeholder as a secret", nil, Spec{Provider: "github", Secrets: []string{"s", eventhook.Redacted}}, []string{"secrets[1]"}},
		{"a placeholder as a value", nil, spelled(Config{Type: "api_key", Header: "X", Values: []string{eventhook.Redacted}}), []string{"verifier.values[0]"}},
		{"sns with its topic", nil, Spec{Provider: "aws-sns", Options: topic}, nil},
		{"sns of any account", nil, Spec{Provider: "aws-sns"}, []string{"options.topic_arn"}},
		{"sns that had none", &Spec{Provider: "aws-sns"}, Spec{Provider: "aws-sns"}, nil},
		{"sns that loses its topic", &Spec{Provider: "aws-sns", Options: topic}, Spec{Provider: "aws-sns"}, []string{"options.topic_arn"}},
		{"sns that was another provider's", &Spec{Provider: "github", Secrets: []string{"s"}}, Spec{Provider: "aws-sns"}, []string{"options.topic_arn"}},
		{"sns spelled out", nil, spelled(Config{Type: "aws_sns"}), []string{"verifier.claims"}},
		{"sns spelled out with its topic", nil, spelled(Config{Type: "aws_sns", Claims: map[string]string{"TopicArn": "arn"}}), nil},
		{"the provider's handshake alone", nil, Spec{Provider: "aws-sns", Verifier: &Config{Type: "none"}}, nil},
		{"kick", nil, Spec{Provider: "kick", PublicKeys: []string{publicText(pairs().rsa)}}, []string{"options.broadcaster_user_id"}},
		{"ebay", nil, Spec{Provider: "ebay", PublicKeys: []string{publicText(pairs().ecdsa)}, Secrets: []string{"s"}}, []string{"options.topic"}},
		{"20 keys", nil, spelled(signing(20)), nil},
		{"21 keys", nil, spelled(signing(21)), []string{"verifier.public_keys"}},
		{"20 keys, repeated", nil, spelled(Config{Type: "public_key", Header: "X", Algorithm: "ecdsa_sha256", PublicKeys: slicesOf(twenty[0], 16)}), nil},
		{"64 fields", nil, spelled(fields(63)), nil},
		{"too many fields", nil, spelled(fields(64)), []string{"verifier.signed"}},
		{"a deep path", nil, spelled(Config{Type: "body_hmac", Path: "sig", Signed: "{field." + strings.Repeat("a.", 16) + "b}", Secrets: []string{"s"}}), []string{"verifier.signed"}},
	} {
		var have eventhook.Secret
		if c.have != nil {
			have = sealedOf(t, *c.have)
		}
		if _, faults := c.want.Resolve(); len(faults) > 0 {
			t.Errorf("%s: %v, want an existing source to stay valid", c.claim, faults)
		}
		var got []string
		for _, f := range ValidateChange(have, sealedOf(t, c.want)) {
			got = append(got, f.Location)
		}
		if !slices.Equal(got, c.fault) {
			t.Errorf("%s: faults at %v, want %v", c.claim, got, c.fault)
		}
		if again := ValidateChange(sealedOf(t, c.want), sealedOf(t, c.want)); len(again) > 0 {
			t.Errorf("%s: unchanged: %v, want no faults", c.claim, again)
		}
	}
}

// A preset with an option that restricts the account refuses other accounts.
func TestPinnedAccounts(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range Presets() {
		for _, o := range p.Options {
			if o.Pins {
				seen[p.ID] = true
				if len(p.Verifier.Claims) == 0 {
					t.Errorf("%s: the option %s does not restrict the account", p.ID, o.Name)
				}
			}
		}
	}
	if got := slices.Sorted(maps.Keys(seen)); !slices.Equal(got, []string{"aws-sns", "ebay", "kick"}) {
		t.Errorf("pinned are %v", got)
	}
	c := Config{Type: "public_key", Header: "X-Sig", Claims: map[string]string{"broadcaster.user_id": "7"},
		PublicKeys: []string{publicText(pairs().ed)}}
	for body, want := range map[string]Reason{
		`{"broadcaster":{"user_id":7}}`:                             "",
		`{"broadcaster":{"user_id":"7"}}`:                           "",
		`{"broadcaster":{"user_id":8}}`:                             ReasonMismatch,
		`{"broadcaster":{"user_id":8},"broadcaster":{"user_id":7}}`: ReasonMalformed,
		`{"broadcaster":{}}`:                                        ReasonMismatch, `{"x":{"user_id":7}}`: ReasonMismatch, `[]`: ReasonMismatch, `x`: ReasonMalformed,
	} {
		v := mustNew(t, c)
		operations, _ := countedKeys(v)
		r := &Request{Header: http.Header{"X-Sig": {hex.EncodeToString(privateSignature(t, "ed25519", body))}, "Content-Type": {"application/json"}}, Body: []byte(body)}
		if got := reasonOf(t, v.Verify(t.Context(), r)); got != want || *operations > 0 != (want == "") {
			t.Errorf("%s: got %q after %d operations, want %q", body, got, *operations, want)
		}
	}
}
