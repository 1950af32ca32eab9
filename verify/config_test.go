package verify

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/eventhook/eventhook"
)

// filled returns a Config in which every field is set, texts to x.
func filled() Config {
	var c Config
	v := reflect.ValueOf(&c).Elem()
	for i := range v.NumField() {
		switch f := v.Field(i); f.Kind() {
		case reflect.String:
			f.SetString("x")
		case reflect.Bool:
			f.SetBool(true)
		case reflect.Slice:
			f.Set(reflect.ValueOf([]string{"x"}))
		case reflect.Map:
			f.Set(reflect.ValueOf(map[string]string{"x": "x"}))
		case reflect.Pointer:
			f.Set(reflect.ValueOf(new(1)))
		default:
			panic("a field of a kind that this does not fill: " + f.Kind().String())
		}
	}
	return c
}

func TestValidate(t *testing.T) {
	many := slices.Repeat([]string{"s"}, maxSecrets+1)
	one := []string{"s"}
	ed, rsa := []string{publicText(pairs().ed)}, []string{publicText(pairs().rsa)}
	for _, tt := range []struct {
		claim string
		c     Config
		at    []string // locations of the faults, in any order
	}{
		{"the type is required", Config{}, []string{"type"}},
		{"an unknown type", Config{Type: "HMAC", Header: "X"}, []string{"type"}},
		{"none uses no field", Config{Type: "none", Secrets: one}, []string{"secrets"}},

		{"hmac requires header and secrets", Config{Type: "hmac"}, []string{"header", "secrets"}},
		{"all faults at once", Config{Type: "hmac", Header: "a b", Algorithm: "md5", Encoding: "hexx", Prefix: "a|b", Separator: "|", Secrets: []string{"s", ""}, SecretEncoding: "rot13"},
			[]string{"header", "algorithm", "encoding", "prefix", "separator", "secrets[0]", "secrets[1]", "secret_encoding"}},
		{"too many secrets", Config{Type: "hmac", Header: "X", Secrets: many}, []string{"secrets"}},
		{"the maximum number of secrets", Config{Type: "hmac", Header: "X", Secrets: many[1:]}, nil},
		{"hmac has no tolerance", Config{Type: "hmac", Header: "X", Secrets: one, ToleranceSeconds: new(300)}, []string{"tolerance_seconds"}},
		{"hmac cannot sign a timestamp", Config{Type: "hmac", Header: "X", Secrets: one, Signed: "{timestamp}{body}"}, []string{"signed"}},
		{"hmac must sign the body", Config{Type: "hmac", Header: "X", Secrets: one, Signed: "{url}"}, []string{"signed"}},
		{"a checksum does not replace the body", Config{Type: "hmac", Header: "X", Secrets: one, Signed: "{crc32}"}, []string{"signed"}},
		{"the body is signed twice", Config{Type: "hmac", Header: "X", Secrets: one, Signed: "{body}{body}"}, []string{"signed"}},
		{"an unknown placeholder", Config{Type: "hmac", Header: "X", Secrets: one, Signed: "{bodi}{body}"}, []string{"signed", "signed"}},
		{"an open brace", Config{Type: "hmac", Header: "X", Secrets: one, Signed: "{body}{"}, []string{"signed"}},
		{"a placeholder without a header name", Config{Type: "hmac", Header: "X", Secrets: one, Signed: "{body}{header.}"}, []string{"signed"}},
		{"a placeholder with an invalid header name", Config{Type: "hmac", Header: "X", Secrets: one, Signed: "{body}{header.a b}"}, []string{"signed"}},
		{"a path with an empty step", Config{Type: "hmac", Header: "X", Secrets: one, Signed: "{body}{field.a..b}"}, []string{"signed"}},
		{"a prefix that contains the separator", Config{Type: "hmac", Header: "X", Secrets: one, Prefix: "a;", Separator: ";"}, []string{"prefix"}},
		{"a prefix with a space", Config{Type: "hmac", Header: "X", Secrets: one, Prefix: "a "}, []string{"prefix"}},
		{"a prefix with a line break", Config{Type: "hmac", Header: "X", Secrets: one, Prefix: "a\n"}, []string{"prefix"}},
		{"an invalid name in also_headers", Config{Type: "hmac", Header: "X", AlsoHeaders: []string{"Y", "a b"}, Secrets: one}, []string{"also_headers"}},
		{"too many names in also_headers", Config{Type: "hmac", Header: "X", AlsoHeaders: slices.Repeat([]string{"Y"}, 101), Secrets: one}, []string{"also_headers"}},
		{"more secrets than headers", Config{Type: "hmac", Header: "X", AlsoHeaders: []string{"Y"}, HeaderPerSecret: true, Secrets: []string{"a", "b", "c"}}, []string{"secrets"}},
		{"a required header without a value", Config{Type: "hmac", Header: "X", Secrets: one, RequireHeaders: map[string]string{"A": ""}}, []string{"require_headers"}},
		{"a required header with an invalid name", Config{Type: "hmac", Header: "X", Secrets: one, RequireHeaders: map[string]string{"a b": "1"}}, []string{"require_headers"}},
		{"a secret that is not base64", Config{Type: "hmac", Header: "X", Secrets: []string{"whsec_AAAA", "ö"}, SecretEncoding: "base64"}, []string{"secrets[1]"}},
		{"a secret that decodes to no bytes", Config{Type: "hmac", Header: "X", Secrets: []string{"whsec_"}, SecretEncoding: "base64"}, []string{"secrets[0]"}},
		{"a secret that is not hexadecimal", Config{Type: "hmac", Header: "X", Secrets: []string{"0"}, SecretEncoding: "hex"}, []string{"secrets[0]"}},

		{"a tolerance of 0", Config{Type: "timestamped_hmac", Header: "X", Secrets: one, ToleranceSeconds: new(0)}, nil},
		{"a negative tolerance", Config{Type: "timestamped_hmac", Header: "X", Secrets: one, ToleranceSeconds: new(-1)}, []string{"tolerance_seconds"}},
		{"a tolerance above the maximum", Config{Type: "timestamped_hmac", Header: "X", Secrets: one, ToleranceSeconds: new(maxTolerance + 1)}, []string{"tolerance_seconds"}},
		{"the same key for timestamp and signature", Config{Type: "timestamped_hmac", Header: "X", Secrets: one, TimestampKey: "v1"}, []string{"signature_key"}},
		{"list keys that are not tokens", Config{Type: "timestamped_hmac", Header: "X", Secrets: one, TimestampKey: "t=", SignatureKey: "v,1"}, []string{"timestamp_key", "signature_key"}},
		{"a prefix in a list with keys", Config{Type: "timestamped_hmac", Header: "X", Secrets: one, Prefix: "v1="}, []string{"prefix"}},
		{"a list in several headers", Config{Type: "timestamped_hmac", Header: "X", Secrets: one, AlsoHeaders: []string{"Y"}}, []string{"also_headers"}},
		{"list keys and a timestamp header", Config{Type: "timestamped_hmac", Header: "X", Secrets: one, TimestampHeader: "Y", SignatureKey: "v1"}, []string{"timestamp_key"}},
		{"a timestamp in header and body", Config{Type: "timestamped_hmac", Header: "X", Secrets: one, TimestampHeader: "Y", TimestampPath: "z"}, []string{"timestamp_path"}},
		{"a timestamp that is not signed", Config{Type: "timestamped_hmac", Header: "X", Secrets: one, TimestampHeader: "Y", Signed: "{body}"}, []string{"signed"}},
		{"a timestamp without the body", Config{Type: "timestamped_hmac", Header: "X", Secrets: one, TimestampHeader: "Y", Signed: "{timestamp}"}, []string{"signed"}},
		{"a timestamp in the signed body", Config{Type: "timestamped_hmac", Header: "X", Secrets: one, TimestampPath: "y", Signed: "{body}"}, nil},
		{"a timestamp among the signed headers", Config{Type: "timestamped_hmac", Header: "X", Secrets: one, TimestampHeader: "Y", Signed: "{headers.Z}{body}"}, nil},
		{"an unknown unit", Config{Type: "timestamped_hmac", Header: "X", Secrets: one, TimestampUnit: "minutes"}, []string{"timestamp_unit"}},
		{"an invalid name of the timestamp header", Config{Type: "timestamped_hmac", Header: "X", Secrets: one, TimestampHeader: "a b"}, []string{"timestamp_header"}},
		{"an invalid timestamp path", Config{Type: "timestamped_hmac", Header: "X", Secrets: one, TimestampPath: ".a"}, []string{"timestamp_path"}},

		{"hash requires header and secrets", Config{Type: "hash"}, []string{"header", "secrets"}},
		{"hash cannot sign a timestamp", Config{Type: "hash", Header: "X", Secrets: one, Signed: "{timestamp}{body}"}, []string{"signed"}},
		{"hash must cover the body", Config{Type: "hash", Header: "X", Secrets: one, Signed: "{url}"}, []string{"signed"}},

		{"body_hmac requires path, secrets and signed", Config{Type: "body_hmac"}, []string{"path", "header", "secrets", "signed"}},
		{"body_hmac must sign a field", Config{Type: "body_hmac", Path: "a", Secrets: one, Signed: "{url}"}, []string{"signed"}},
		{"body_hmac cannot sign the body, which contains the signature", Config{Type: "body_hmac", Path: "a", Secrets: one, Signed: "{field.a}{body}"}, []string{"signed"}},
		{"body_hmac cannot sign a timestamp", Config{Type: "body_hmac", Path: "a", Secrets: one, Signed: "{field.a}{timestamp}"}, []string{"signed"}},
		{"invalid paths", Config{Type: "body_hmac", Path: "a.", Items: "..", Secrets: one, Signed: "{field.a}"}, []string{"path", "items"}},

		{"standard_webhooks requires a secret or a key", Config{Type: "standard_webhooks"}, []string{"secrets"}},
		{"standard_webhooks accepts keys without secrets", Config{Type: "standard_webhooks", PublicKeys: ed}, nil},
		{"standard_webhooks accepts keys and secrets", Config{Type: "standard_webhooks", PublicKeys: ed, Secrets: []string{"whsec_AAAA"}}, nil},
		{"standard_webhooks accepts only Ed25519 keys", Config{Type: "standard_webhooks", PublicKeys: rsa}, []string{"public_keys[0]"}},
		{"standard_webhooks requires base64 secrets", Config{Type: "standard_webhooks", Secrets: []string{"ö"}}, []string{"secrets[0]"}},
		{"standard_webhooks requires header names that end with -signature", Config{Type: "standard_webhooks", Header: "X-Sig", AlsoHeaders: []string{"a b-signature"}, Secrets: []string{"AAAA"}}, []string{"header", "header"}},
		{"standard_webhooks with a negative tolerance", Config{Type: "standard_webhooks", Secrets: []string{"AAAA"}, ToleranceSeconds: new(-1)}, []string{"tolerance_seconds"}},

		{"url_form_hmac requires header and secrets", Config{Type: "url_form_hmac"}, []string{"header", "secrets"}},
		{"url_form_hmac has no template", Config{Type: "url_form_hmac", Header: "X", Secrets: one, Signed: "{body}"}, []string{"signed"}},

		{"public_key requires header and keys", Config{Type: "public_key"}, []string{"header", "public_keys"}},
		{"public_key requires keys of its algorithm", Config{Type: "public_key", Header: "X", PublicKeys: []string{ed[0], rsa[0], "x"}}, []string{"public_keys[1]", "public_keys[2]"}},
		{"public_key with an unknown algorithm", Config{Type: "public_key", Header: "X", Algorithm: "rsa_md5", PublicKeys: rsa}, []string{"algorithm"}},
		{"public_key must cover the body", Config{Type: "public_key", Header: "X", PublicKeys: ed, Signed: "{url}"}, []string{"signed"}},
		{"public_key accepts a checksum of the body", Config{Type: "public_key", Header: "X", PublicKeys: ed, Signed: "{crc32}"}, nil},
		{"public_key must sign a configured timestamp", Config{Type: "public_key", Header: "X", PublicKeys: ed, Signed: "{body}", TimestampHeader: "Y"}, []string{"signed"}},
		{"public_key requires a header for a signed timestamp", Config{Type: "public_key", Header: "X", PublicKeys: ed, Signed: "{timestamp}{body}"}, []string{"timestamp_header"}},
		{"a timestamp in the body is not signed separately", Config{Type: "timestamped_hmac", Header: "X", Secrets: []string{"s"}, TimestampPath: "at", Signed: "{timestamp}{body}"}, []string{"signed"}},
		{"a certificate header without hosts", Config{Type: "public_key", Header: "X", CertificateHeader: "Y"}, []string{"certificate_hosts"}},
		{"certificate hosts without a header", Config{Type: "public_key", Header: "X", CertificateHosts: []string{"h"}, PublicKeys: ed}, []string{"certificate_hosts"}},
		{"an invalid name of the certificate header", Config{Type: "public_key", Header: "X", CertificateHeader: "a b", CertificateHosts: []string{"h"}}, []string{"certificate_header"}},
		{"an invalid header_json path", Config{Type: "public_key", Header: "X", HeaderJSON: ".a", PublicKeys: ed}, []string{"header_json"}},

		{"jwt requires a key", Config{Type: "jwt"}, []string{"public_keys"}},
		{"jwt with HS256 requires secrets", Config{Type: "jwt", Algorithm: "HS256"}, []string{"secrets"}},
		{"jwt does not support none", Config{Type: "jwt", Algorithm: "none", Secrets: one}, []string{"algorithm"}},
		{"public keys with HS256", Config{Type: "jwt", Algorithm: "HS256", Secrets: one, PublicKeys: rsa}, []string{"public_keys"}},
		{"a key set with HS256", Config{Type: "jwt", Algorithm: "HS256", Secrets: one, KeySetURL: "https://h.example/"}, []string{"public_keys"}},
		{"secrets and public keys", Config{Type: "jwt", Secrets: one, PublicKeys: rsa}, []string{"secrets"}},
		{"jwt requires keys of its algorithm", Config{Type: "jwt", PublicKeys: []string{ed[0], rsa[0], "x"}}, []string{"public_keys[0]", "public_keys[2]"}},
		{"a key set over http", Config{Type: "jwt", KeySetURL: "http://h.example/"}, []string{"jwks_url"}},
		{"a key set URL without a host", Config{Type: "jwt", KeySetURL: "https:///a"}, []string{"jwks_url"}},
		{"a token age above the maximum", Config{Type: "jwt", PublicKeys: rsa, ToleranceSeconds: new(maxTolerance + 1)}, []string{"tolerance_seconds"}},
		{"a token age that is not checked", Config{Type: "jwt", PublicKeys: rsa, ToleranceSeconds: new(0)}, nil},
		{"an unknown encoding of the body hash", Config{Type: "jwt", PublicKeys: rsa, BodyHashClaim: "a", BodyHashEncoding: "base32"}, []string{"body_hash_encoding"}},
		{"an encoding without a body hash claim", Config{Type: "jwt", PublicKeys: rsa, BodyHashEncoding: "hex"}, []string{"body_hash_encoding"}},
		{"a claim without a value", Config{Type: "jwt", PublicKeys: rsa, Claims: map[string]string{"a": ""}}, []string{"claims"}},
		{"an invalid name of the token header", Config{Type: "jwt", Header: "a b", PublicKeys: rsa}, []string{"header"}},

		{"aws_sns requires no field", Config{Type: "aws_sns"}, nil},
		{"aws_sns accepts only RSA keys", Config{Type: "aws_sns", PublicKeys: ed}, []string{"public_keys[0]"}},
		{"aws_sns accepts only the claim TopicArn", Config{Type: "aws_sns", Claims: map[string]string{"Type": "x"}}, []string{"claims"}},

		{"basic_auth requires username and password", Config{Type: "basic_auth"}, []string{"username", "password"}},
		{"a colon in a username and a line break in a password", Config{Type: "basic_auth", Username: "a:b", Password: "p\n"}, []string{"username", "password"}},
		{"values that are not pairs", Config{Type: "basic_auth", Values: []string{"a:b", "a", ":b", "a:", "a:b\n", ""}}, []string{"values[1]", "values[2]", "values[3]", "values[4]", "values[5]"}},
		{"a username and values", Config{Type: "basic_auth", Username: "a", Password: "b", Values: []string{"a:b"}}, []string{"values"}},
		{"too many pairs", Config{Type: "basic_auth", Values: slices.Repeat([]string{"a:b"}, maxSecrets+1)}, []string{"values"}},

		{"api_key requires header and values", Config{Type: "api_key"}, []string{"header", "values"}},
		{"values that a header cannot contain", Config{Type: "api_key", Header: "X", Values: []string{"k ", "", "k\n"}}, []string{"values[0]", "values[1]", "values[2]"}},
		{"a URL parameter", Config{Type: "api_key", Query: "a", Values: one}, nil},
		{"a field of the body", Config{Type: "api_key", Path: "a.#.b", Values: one}, nil},
		{"a field and a header", Config{Type: "api_key", Path: "a", Header: "X", Values: one}, []string{"path"}},
		{"a prefix that a header cannot contain", Config{Type: "api_key", Header: "X", Prefix: "a\n", Values: one}, []string{"prefix"}},
	} {
		faults := tt.c.Validate()
		var at []string
		for _, f := range faults {
			at = append(at, f.Location)
		}
		slices.Sort(at)
		slices.Sort(tt.at)
		if !slices.Equal(at, tt.at) {
			t.Errorf("%s: faults %v, want them at %v", tt.claim, faults, tt.at)
		}
		v, err := New(tt.c, nil)
		if wrong := len(tt.at) > 0; (v == nil) != wrong || (eventhook.KindOf(err) == eventhook.KindInvalid) != wrong {
			t.Errorf("%s: New returned %v, %v; want a KindInvalid: %t", tt.claim, v, err, wrong)
		}
	}
}

// A field that the type does not use is reported, not ignored.
func TestFieldsOfOtherTypesAreFaults(t *testing.T) {
	all := filled()
	for typ, s := range schemes {
		all.Type = typ
		faults := all.Validate()
		for _, key := range all.setFields() {
			unused := slices.ContainsFunc(faults, func(f eventhook.Fault) bool { return f.Location == key && strings.Contains(f.Message, "not used") })
			if unused == slices.Contains(s.fields, key) {
				t.Errorf("%s: %s is reported as unused: %t, want %t", typ, key, unused, !unused)
			}
		}
		if got := Fields(typ); len(got) != len(s.fields) || !slices.IsSorted(got) || len(slices.Compact(slices.Clone(got))) != len(got) {
			t.Errorf("%s: fields %v, want each once and sorted", typ, got)
		}
		for _, key := range s.fields {
			if !slices.Contains(all.setFields(), key) {
				t.Errorf("%s uses %s, which is not a field", typ, key)
			}
		}
	}
	if got := Fields("unknown"); len(got) > 0 {
		t.Errorf("an unknown type uses %v, want no field", got)
	}
}

// TestSetFieldsNamesEveryField fails if Validate would not report an unused new
// field, or if a field has different names in JSON and YAML.
func TestSetFieldsNamesEveryField(t *testing.T) {
	given := append(filled().setFields(), "type")
	typ := reflect.TypeFor[Config]()
	for f := range typ.Fields() {
		key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		yaml, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if !slices.Contains(given, key) || yaml != key {
			t.Errorf("field %s: json %q, yaml %q, set fields %v", f.Name, key, yaml, given)
		}
	}
	if got := (Config{Type: "x", Secrets: []string{}, Claims: map[string]string{}}).setFields(); len(got) > 0 {
		t.Errorf("an empty config has the fields %v, want none", got)
	}
}

// Without a separator, the field contains exactly one signature.
func TestBodyHMACHasOneSignature(t *testing.T) {
	c := Config{Type: "body_hmac", Path: "sig", Signed: "{field.a}", Secrets: []string{"secret"}}
	r := &Request{Body: []byte(`{"a":"x","sig":"` + hexMAC("secret", "x") + `,00"}`)}
	for _, tt := range []struct {
		claim, separator string
		want             Reason
	}{{"one", "", ReasonEncoding}, {"several", ",", ""}} {
		c.Separator = tt.separator
		for _, c := range []Config{c, c.WithDefaults()} {
			if got := reasonOf(t, mustNew(t, c).Verify(t.Context(), r)); got != tt.want {
				t.Errorf("%s: got %q, want %q", tt.claim, got, tt.want)
			}
		}
	}
}

// A Config and its WithDefaults verify the same requests.
func TestWithDefaultsVerifiesTheSame(t *testing.T) {
	for _, c := range examples() {
		d := c.WithDefaults()
		if faults := d.Validate(); len(faults) > 0 {
			t.Errorf("%s: faults %v, want none", c.Type, faults)
			continue
		}
		if err := mustNew(t, d).Verify(t.Context(), signedFor(t, c, "secret", 100)); err != nil {
			t.Errorf("%s: %v, want the same request verified", c.Type, err)
		}
	}
}

func TestConfigPrintsNoSecrets(t *testing.T) {
	const secret = "hunter2"
	c := Config{Type: "hmac", Header: "X-Sig", Secrets: []string{secret}, Password: secret, Values: []string{secret}}
	s := Spec{Provider: "X-Sig", Secrets: []string{secret}}
	spelledOut := Spec{Provider: "X-Sig", Verifier: &c}
	var out bytes.Buffer
	type holder struct{ Verifier Config }
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		_, _ = fmt.Fprintf(&out, strings.Repeat(verb, 8)+"\n", c, &c, holder{c}, []Config{c}, s, &s, []Spec{s}, spelledOut)
	}
	for _, h := range []slog.Handler{slog.NewJSONHandler(&out, nil), slog.NewTextHandler(&out, nil)} {
		slog.New(h).Info("m", "c", c, "p", &c, "s", s, "q", &s, "o", spelledOut)
	}
	_, err := New(c, nil)
	out.WriteString(err.Error())
	_, faults := s.Resolve()
	out.WriteString(fmt.Sprint(faults))
	hexed := fmt.Sprintf("%x", secret)
	if s := out.String(); strings.Contains(s, secret) || strings.Contains(s, hexed) || !strings.Contains(s, "X-Sig") {
		t.Errorf("printed or logged: %s", s)
	}
	data, _ := json.Marshal(c)
	var back Config
	if err := json.Unmarshal(data, &back); err != nil || !reflect.DeepEqual(back, c) {
		t.Errorf("decoding %s (%v) gave another config", data, err)
	}
	all := filled()
	data, _ = json.Marshal(all)
	back = Config{}
	if err := json.Unmarshal(data, &back); err != nil || !reflect.DeepEqual(back, all) {
		t.Errorf("decoding %s (%v) gave another config", data, err)
	}
}

func TestNoFaultRepeatsASecret(t *testing.T) {
	const secret = "hunter2\n"
	for typ := range schemes {
		for _, encoding := range []string{"", "base64", "hex", "sha1"} {
			c := Config{Type: typ, Secrets: []string{secret}, Values: []string{secret}, PublicKeys: []string{secret}, Username: secret, Password: secret, SecretEncoding: encoding}
			if got := fmt.Sprint(c.Validate()); strings.Contains(got, "hunter2") {
				t.Errorf("%s: %s", typ, got)
			}
		}
	}
}

func TestSecretHeadersSecretsCountCoversBody(t *testing.T) {
	one := []string{"a"}
	for _, tt := range []struct {
		c       Config
		headers []string
		count   int
		covers  bool
	}{
		{Config{Type: "api_key", Header: "x-token", Values: []string{"a", "b"}}, []string{"X-Token"}, 2, false},
		{Config{Type: "api_key", Query: "token", Values: one}, nil, 1, false},
		{Config{Type: "api_key", Path: "token", Values: one}, nil, 1, false},
		{Config{Type: "aws_sns"}, nil, 0, false},
		{Config{Type: "basic_auth", Username: "u", Password: "p"}, []string{"Authorization"}, 1, false},
		{Config{Type: "basic_auth", Values: []string{"a:b", "c:d"}}, []string{"Authorization"}, 2, false},
		{Config{Type: "body_hmac", Path: "a", Secrets: one}, nil, 1, false},
		{Config{Type: "hash", Header: "X", Secrets: one}, nil, 1, true},
		{Config{Type: "hmac", Header: "X", Secrets: []string{"a", "b", "c"}}, nil, 3, true},
		{Config{Type: "jwt"}, []string{"Authorization"}, 0, false},
		{Config{Type: "jwt", Header: "x-jwt", BodyHashClaim: "sha256"}, []string{"X-Jwt"}, 0, true},
		{Config{Type: "none"}, nil, 0, false},
		{Config{Type: "public_key", Header: "X"}, nil, 0, true},
		{Config{Type: "public_key", Header: "X", Signed: "{crc32}"}, nil, 0, false},
		{Config{Type: "standard_webhooks", Secrets: one}, nil, 1, true},
		{Config{Type: "timestamped_hmac", Header: "X", Secrets: one}, nil, 1, true},
		{Config{Type: "url_form_hmac", Header: "X", Secrets: one}, nil, 1, true},
	} {
		if h, n := tt.c.SecretHeaders(), tt.c.SecretsCount(); !slices.Equal(h, tt.headers) || n != tt.count || tt.c.CoversBody() != tt.covers {
			t.Errorf("%s: headers %v, count %d, covers the body %t; want %v, %d and %t", tt.c, h, n, tt.c.CoversBody(), tt.headers, tt.count, tt.covers)
		}
	}
	if h := (Config{Type: "unknown"}).SecretHeaders(); h != nil {
		t.Errorf("an unknown type: headers %v, want none", h)
	}
}
