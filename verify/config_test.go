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
		{"no type is not none", Config{}, []string{"type"}},
		{"unknown type", Config{Type: "HMAC", Header: "X"}, []string{"type"}},
		{"none takes nothing", Config{Type: "none", Secrets: one}, []string{"secrets"}},

		{"hmac needs header and secrets", Config{Type: "hmac"}, []string{"header", "secrets"}},
		{"all faults at once", Config{Type: "hmac", Header: "a b", Algorithm: "md5", Encoding: "hexx", Prefix: "a|b", Separator: "|", Secrets: []string{"s", ""}, SecretEncoding: "rot13"},
			[]string{"header", "algorithm", "encoding", "prefix", "separator", "secrets[0]", "secrets[1]", "secret_encoding"}},
		{"bounded secrets", Config{Type: "hmac", Header: "X", Secrets: many}, []string{"secrets"}},
		{"as many as may be", Config{Type: "hmac", Header: "X", Secrets: many[1:]}, nil},
		{"hmac has no clock", Config{Type: "hmac", Header: "X", Secrets: one, ToleranceSeconds: new(300)}, []string{"tolerance_seconds"}},
		{"hmac signs no timestamp", Config{Type: "hmac", Header: "X", Secrets: one, Signed: "{timestamp}{body}"}, []string{"signed"}},
		{"hmac signs the body", Config{Type: "hmac", Header: "X", Secrets: one, Signed: "{url}"}, []string{"signed"}},
		{"a checksum is not the body", Config{Type: "hmac", Header: "X", Secrets: one, Signed: "{crc32}"}, []string{"signed"}},
		{"a body twice", Config{Type: "hmac", Header: "X", Secrets: one, Signed: "{body}{body}"}, []string{"signed"}},
		{"an unknown placeholder", Config{Type: "hmac", Header: "X", Secrets: one, Signed: "{bodi}{body}"}, []string{"signed", "signed"}},
		{"a brace left open", Config{Type: "hmac", Header: "X", Secrets: one, Signed: "{body}{"}, []string{"signed"}},
		{"a placeholder without its name", Config{Type: "hmac", Header: "X", Secrets: one, Signed: "{body}{header.}"}, []string{"signed"}},
		{"a placeholder of no header", Config{Type: "hmac", Header: "X", Secrets: one, Signed: "{body}{header.a b}"}, []string{"signed"}},
		{"a path with a hole", Config{Type: "hmac", Header: "X", Secrets: one, Signed: "{body}{field.a..b}"}, []string{"signed"}},
		{"a prefix that holds the separator", Config{Type: "hmac", Header: "X", Secrets: one, Prefix: "a;", Separator: ";"}, []string{"prefix"}},
		{"a prefix with a space", Config{Type: "hmac", Header: "X", Secrets: one, Prefix: "a "}, []string{"prefix"}},
		{"a prefix with a line break", Config{Type: "hmac", Header: "X", Secrets: one, Prefix: "a\n"}, []string{"prefix"}},
		{"other headers are headers", Config{Type: "hmac", Header: "X", AlsoHeaders: []string{"Y", "a b"}, Secrets: one}, []string{"also_headers"}},
		{"bounded other headers", Config{Type: "hmac", Header: "X", AlsoHeaders: slices.Repeat([]string{"Y"}, 101), Secrets: one}, []string{"also_headers"}},
		{"a header for each secret", Config{Type: "hmac", Header: "X", AlsoHeaders: []string{"Y"}, HeaderPerSecret: true, Secrets: []string{"a", "b", "c"}}, []string{"secrets"}},
		{"required headers have values", Config{Type: "hmac", Header: "X", Secrets: one, RequireHeaders: map[string]string{"A": ""}}, []string{"require_headers"}},
		{"required headers are headers", Config{Type: "hmac", Header: "X", Secrets: one, RequireHeaders: map[string]string{"a b": "1"}}, []string{"require_headers"}},
		{"a secret that is no base64", Config{Type: "hmac", Header: "X", Secrets: []string{"whsec_AAAA", "ö"}, SecretEncoding: "base64"}, []string{"secrets[1]"}},
		{"a secret that is nothing in base64", Config{Type: "hmac", Header: "X", Secrets: []string{"whsec_"}, SecretEncoding: "base64"}, []string{"secrets[0]"}},
		{"a secret that is no hexadecimal", Config{Type: "hmac", Header: "X", Secrets: []string{"0"}, SecretEncoding: "hex"}, []string{"secrets[0]"}},

		{"a tolerance of 0 is none", Config{Type: "timestamped_hmac", Header: "X", Secrets: one, ToleranceSeconds: new(0)}, nil},
		{"no negative tolerance", Config{Type: "timestamped_hmac", Header: "X", Secrets: one, ToleranceSeconds: new(-1)}, []string{"tolerance_seconds"}},
		{"bounded tolerance", Config{Type: "timestamped_hmac", Header: "X", Secrets: one, ToleranceSeconds: new(maxTolerance + 1)}, []string{"tolerance_seconds"}},
		{"ambiguous parts", Config{Type: "timestamped_hmac", Header: "X", Secrets: one, TimestampKey: "v1"}, []string{"signature_key"}},
		{"parts are tokens", Config{Type: "timestamped_hmac", Header: "X", Secrets: one, TimestampKey: "t=", SignatureKey: "v,1"}, []string{"timestamp_key", "signature_key"}},
		{"parts have no prefix", Config{Type: "timestamped_hmac", Header: "X", Secrets: one, Prefix: "v1="}, []string{"prefix"}},
		{"parts are in one header", Config{Type: "timestamped_hmac", Header: "X", Secrets: one, AlsoHeaders: []string{"Y"}}, []string{"also_headers"}},
		{"no parts beside a header", Config{Type: "timestamped_hmac", Header: "X", Secrets: one, TimestampHeader: "Y", SignatureKey: "v1"}, []string{"timestamp_key"}},
		{"one timestamp", Config{Type: "timestamped_hmac", Header: "X", Secrets: one, TimestampHeader: "Y", TimestampPath: "z"}, []string{"timestamp_path"}},
		{"a timestamp that is not signed", Config{Type: "timestamped_hmac", Header: "X", Secrets: one, TimestampHeader: "Y", Signed: "{body}"}, []string{"signed"}},
		{"a timestamp without the body", Config{Type: "timestamped_hmac", Header: "X", Secrets: one, TimestampHeader: "Y", Signed: "{timestamp}"}, []string{"signed"}},
		{"a timestamp in the signed body", Config{Type: "timestamped_hmac", Header: "X", Secrets: one, TimestampPath: "y", Signed: "{body}"}, nil},
		{"a timestamp among the signed headers", Config{Type: "timestamped_hmac", Header: "X", Secrets: one, TimestampHeader: "Y", Signed: "{headers.Z}{body}"}, nil},
		{"a unit that we know", Config{Type: "timestamped_hmac", Header: "X", Secrets: one, TimestampUnit: "minutes"}, []string{"timestamp_unit"}},
		{"a timestamp header is a header", Config{Type: "timestamped_hmac", Header: "X", Secrets: one, TimestampHeader: "a b"}, []string{"timestamp_header"}},
		{"a timestamp path is a path", Config{Type: "timestamped_hmac", Header: "X", Secrets: one, TimestampPath: ".a"}, []string{"timestamp_path"}},

		{"hash needs header and secrets", Config{Type: "hash"}, []string{"header", "secrets"}},
		{"hash has no timestamp", Config{Type: "hash", Header: "X", Secrets: one, Signed: "{timestamp}{body}"}, []string{"signed"}},
		{"hash covers the body", Config{Type: "hash", Header: "X", Secrets: one, Signed: "{url}"}, []string{"signed"}},

		{"body_hmac needs path, secrets and what is signed", Config{Type: "body_hmac"}, []string{"path", "header", "secrets", "signed"}},
		{"body_hmac signs fields", Config{Type: "body_hmac", Path: "a", Secrets: one, Signed: "{url}"}, []string{"signed"}},
		{"body_hmac does not sign the signature", Config{Type: "body_hmac", Path: "a", Secrets: one, Signed: "{field.a}{body}"}, []string{"signed"}},
		{"body_hmac has no timestamp", Config{Type: "body_hmac", Path: "a", Secrets: one, Signed: "{field.a}{timestamp}"}, []string{"signed"}},
		{"paths are paths", Config{Type: "body_hmac", Path: "a.", Items: "..", Secrets: one, Signed: "{field.a}"}, []string{"path", "items"}},

		{"standard_webhooks needs a secret or a key", Config{Type: "standard_webhooks"}, []string{"secrets"}},
		{"standard_webhooks takes either", Config{Type: "standard_webhooks", PublicKeys: ed}, nil},
		{"standard_webhooks takes both", Config{Type: "standard_webhooks", PublicKeys: ed, Secrets: []string{"whsec_AAAA"}}, nil},
		{"standard_webhooks takes Ed25519 alone", Config{Type: "standard_webhooks", PublicKeys: rsa}, []string{"public_keys[0]"}},
		{"standard_webhooks decodes secrets", Config{Type: "standard_webhooks", Secrets: []string{"ö"}}, []string{"secrets[0]"}},
		{"standard_webhooks has its names", Config{Type: "standard_webhooks", Header: "X-Sig", AlsoHeaders: []string{"a b-signature"}, Secrets: []string{"AAAA"}}, []string{"header", "header"}},
		{"standard_webhooks and its bounds", Config{Type: "standard_webhooks", Secrets: []string{"AAAA"}, ToleranceSeconds: new(-1)}, []string{"tolerance_seconds"}},

		{"url_form_hmac needs header and secrets", Config{Type: "url_form_hmac"}, []string{"header", "secrets"}},
		{"url_form_hmac signs what it signs", Config{Type: "url_form_hmac", Header: "X", Secrets: one, Signed: "{body}"}, []string{"signed"}},

		{"public_key needs header and keys", Config{Type: "public_key"}, []string{"header", "public_keys"}},
		{"public_key takes keys of its algorithm", Config{Type: "public_key", Header: "X", PublicKeys: []string{ed[0], rsa[0], "x"}}, []string{"public_keys[1]", "public_keys[2]"}},
		{"public_key knows algorithms", Config{Type: "public_key", Header: "X", Algorithm: "rsa_md5", PublicKeys: rsa}, []string{"algorithm"}},
		{"public_key covers the body", Config{Type: "public_key", Header: "X", PublicKeys: ed, Signed: "{url}"}, []string{"signed"}},
		{"a checksum will do", Config{Type: "public_key", Header: "X", PublicKeys: ed, Signed: "{crc32}"}, nil},
		{"public_key signs its timestamp", Config{Type: "public_key", Header: "X", PublicKeys: ed, Signed: "{body}", TimestampHeader: "Y"}, []string{"signed"}},
		{"public_key has a place for its timestamp", Config{Type: "public_key", Header: "X", PublicKeys: ed, Signed: "{timestamp}{body}"}, []string{"timestamp_header"}},
		{"a timestamp in the body is signed with it", Config{Type: "timestamped_hmac", Header: "X", Secrets: []string{"s"}, TimestampPath: "at", Signed: "{timestamp}{body}"}, []string{"signed"}},
		{"certificates have hosts", Config{Type: "public_key", Header: "X", CertificateHeader: "Y"}, []string{"certificate_hosts"}},
		{"hosts have a header", Config{Type: "public_key", Header: "X", CertificateHosts: []string{"h"}, PublicKeys: ed}, []string{"certificate_hosts"}},
		{"a certificate's header is a header", Config{Type: "public_key", Header: "X", CertificateHeader: "a b", CertificateHosts: []string{"h"}}, []string{"certificate_header"}},
		{"a member is a path", Config{Type: "public_key", Header: "X", HeaderJSON: ".a", PublicKeys: ed}, []string{"header_json"}},

		{"jwt needs a key", Config{Type: "jwt"}, []string{"public_keys"}},
		{"jwt with HS256 needs secrets", Config{Type: "jwt", Algorithm: "HS256"}, []string{"secrets"}},
		{"jwt never takes none", Config{Type: "jwt", Algorithm: "none", Secrets: one}, []string{"algorithm"}},
		{"no key that is published is a secret", Config{Type: "jwt", Algorithm: "HS256", Secrets: one, PublicKeys: rsa}, []string{"public_keys"}},
		{"no key set for a secret", Config{Type: "jwt", Algorithm: "HS256", Secrets: one, KeySetURL: "https://h.example/"}, []string{"public_keys"}},
		{"no secret beside a key", Config{Type: "jwt", Secrets: one, PublicKeys: rsa}, []string{"secrets"}},
		{"jwt takes keys of its algorithm", Config{Type: "jwt", PublicKeys: []string{ed[0], rsa[0], "x"}}, []string{"public_keys[0]", "public_keys[2]"}},
		{"key sets come over https", Config{Type: "jwt", KeySetURL: "http://h.example/"}, []string{"jwks_url"}},
		{"key sets have a host", Config{Type: "jwt", KeySetURL: "https:///a"}, []string{"jwks_url"}},
		{"a token's age is bounded", Config{Type: "jwt", PublicKeys: rsa, ToleranceSeconds: new(maxTolerance + 1)}, []string{"tolerance_seconds"}},
		{"a token's age may not be judged", Config{Type: "jwt", PublicKeys: rsa, ToleranceSeconds: new(0)}, nil},
		{"the hash of a body has an encoding that is known", Config{Type: "jwt", PublicKeys: rsa, BodyHashClaim: "a", BodyHashEncoding: "base32"}, []string{"body_hash_encoding"}},
		{"an encoding is of a hash", Config{Type: "jwt", PublicKeys: rsa, BodyHashEncoding: "hex"}, []string{"body_hash_encoding"}},
		{"claims have values", Config{Type: "jwt", PublicKeys: rsa, Claims: map[string]string{"a": ""}}, []string{"claims"}},
		{"a token's header is a header", Config{Type: "jwt", Header: "a b", PublicKeys: rsa}, []string{"header"}},

		{"aws_sns needs nothing", Config{Type: "aws_sns"}, nil},
		{"aws_sns takes RSA", Config{Type: "aws_sns", PublicKeys: ed}, []string{"public_keys[0]"}},
		{"aws_sns knows one claim", Config{Type: "aws_sns", Claims: map[string]string{"Type": "x"}}, []string{"claims"}},

		{"basic_auth needs both", Config{Type: "basic_auth"}, []string{"username", "password"}},
		{"no colon in a username", Config{Type: "basic_auth", Username: "a:b", Password: "p\n"}, []string{"username", "password"}},
		{"several are pairs", Config{Type: "basic_auth", Values: []string{"a:b", "a", ":b", "a:", "a:b\n", ""}}, []string{"values[1]", "values[2]", "values[3]", "values[4]", "values[5]"}},
		{"one or several", Config{Type: "basic_auth", Username: "a", Password: "b", Values: []string{"a:b"}}, []string{"values"}},
		{"bounded pairs", Config{Type: "basic_auth", Values: slices.Repeat([]string{"a:b"}, maxSecrets+1)}, []string{"values"}},

		{"api_key needs both", Config{Type: "api_key"}, []string{"header", "values"}},
		{"no value that cannot arrive", Config{Type: "api_key", Header: "X", Values: []string{"k ", "", "k\n"}}, []string{"values[0]", "values[1]", "values[2]"}},
		{"a parameter will do", Config{Type: "api_key", Query: "a", Values: one}, nil},
		{"a field will do", Config{Type: "api_key", Path: "a.#.b", Values: one}, nil},
		{"a field stands alone", Config{Type: "api_key", Path: "a", Header: "X", Values: one}, []string{"path"}},
		{"a prefix that cannot arrive", Config{Type: "api_key", Header: "X", Prefix: "a\n", Values: one}, []string{"prefix"}},
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
			t.Errorf("%s: New gives %v, %v, want an invalid error %t", tt.claim, v, err, wrong)
		}
	}
}

// TestFieldsOfOtherTypesAreFaults: fields that a type does not use are not ignored.
func TestFieldsOfOtherTypesAreFaults(t *testing.T) {
	all := filled()
	for typ, s := range schemes {
		all.Type = typ
		faults := all.Validate()
		for _, key := range all.setFields() {
			unused := slices.ContainsFunc(faults, func(f eventhook.Fault) bool { return f.Location == key && strings.Contains(f.Message, "not used") })
			if unused == slices.Contains(s.fields, key) {
				t.Errorf("%s: %s is unused %t, want the opposite", typ, key, unused)
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
		t.Errorf("an unknown type uses %v, want nothing", got)
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
			t.Errorf("field %s: json %q, yaml %q, given %v", f.Name, key, yaml, given)
		}
	}
	if got := (Config{Type: "x", Secrets: []string{}, Claims: map[string]string{}}).setFields(); len(got) > 0 {
		t.Errorf("an empty config gives %v, want nothing", got)
	}
}

// TestBodyHMACHasOneSignature, unless a separator is configured.
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

// TestWithDefaultsVerifiesTheSame: a Config and its WithDefaults verify the same
// requests.
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
	const secret = "tell-nobody"
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

// TestNoFaultRepeatsASecret.
func TestNoFaultRepeatsASecret(t *testing.T) {
	const secret = "tell-nobody\n"
	for typ := range schemes {
		for _, encoding := range []string{"", "base64", "hex", "sha1"} {
			c := Config{Type: typ, Secrets: []string{secret}, Values: []string{secret}, PublicKeys: []string{secret}, Username: secret, Password: secret, SecretEncoding: encoding}
			if got := fmt.Sprint(c.Validate()); strings.Contains(got, "tell-nobody") {
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
