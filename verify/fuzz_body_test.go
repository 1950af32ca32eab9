package verify

import (
	"bytes"
	"crypto"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	neturl "net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// The verifiers in this file parse JSON. Their fuzz tests check accepted requests
// with another parser, and that refusals have a reason.

// plainMembers returns the members of a JSON object, each with all its values.
func plainMembers(data []byte) map[string][]json.RawMessage {
	members := map[string][]json.RawMessage{}
	d := json.NewDecoder(bytes.NewReader(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return nil
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil
		}
		var value json.RawMessage
		if d.Decode(&value) != nil {
			return nil
		}
		members[fmt.Sprint(name)] = append(members[fmt.Sprint(name)], value)
	}
	return members
}

// plainText returns the value of a member as text; ok is false if the member is
// repeated.
func plainText(members map[string][]json.RawMessage, name string) (text string, ok bool) {
	values := members[name]
	if len(values) != 1 {
		return "", len(values) == 0
	}
	var s string
	if json.Unmarshal(values[0], &s) == nil {
		return s, true
	}
	if c := values[0][0]; c == '{' || c == '[' {
		return "", true
	}
	return string(values[0]), true
}

func FuzzBodyHMAC(f *testing.F) {
	for _, body := range []string{
		"", "{}", "null", "[]", `{"a":"x","sig":"{sig}"}`, `{"a":"x","sig":"{sig}","sig":1}`, `{"a":"x","a":"y","sig":"{sig}"}`, `{"a":1.50,"sig":"{sig}"}`, `{"a":true,"sig":"{sig}"}`,
		`{"a":null,"sig":"{sig}"}`, `{"sig":"{sig}"}`, `{"a":"x","s\u0069g":"{sig}"}`, `{"a":"x","sig":" {sig}"}`, `{"a":"x","sig":"{sig},00"}`, `{"a":"x","sig":["{sig}"]}`, `{"a":"x","sig":"{sig}"}}`,
		`{"a":{"b":"x"},"sig":"{sig}"}`, "\xef\xbb\xbf" + `{"a":"x","sig":"{sig}"}`,
	} {
		f.Add([]byte(body))
	}
	c := Config{Type: "body_hmac", Path: "sig", Signed: "{field.a}", Secrets: []string{"secret"}}
	f.Fuzz(func(t *testing.T, body []byte) {
		a, _ := plainText(plainMembers(body), "a")
		body = bytes.ReplaceAll(body, []byte("{sig}"), []byte(hexMAC("secret", a)))
		err := mustNew(t, c).Verify(t.Context(), &Request{Header: http.Header{}, Body: body})
		members := plainMembers(body)
		a, once := plainText(members, "a")
		sig, _ := plainText(members, "sig")
		good := json.Valid(bytes.TrimPrefix(body, []byte("\xef\xbb\xbf"))) && once && sig == hexMAC("secret", a)
		odd := bytes.Contains(body, []byte(`\u`)) || !bytes.Equal(bytes.ToValidUTF8(body, nil), body) || bytes.Count(body, []byte("["))+bytes.Count(body, []byte("{")) > 1000
		if reason := reasonOf(t, err); (reason == "") != good && (reason == "" || !odd) {
			t.Errorf("%q: got %v, want verified %t", body, err, good)
		}
	})
}

func FuzzSNS(f *testing.F) {
	const whole = `{"Type":"Notification","MessageId":"1","TopicArn":"arn","Timestamp":"t","Message":"m","Subject":"s","SignatureVersion":"2","Signature":"{sig}","SigningCertURL":"https://sns.us-east-1.amazonaws.com/SimpleNotificationService-0a.pem"}`
	for _, body := range []string{
		"", "{}", whole, strings.Replace(whole, `"2"`, `"1"`, 1), strings.Replace(whole, `"2"`, "2", 1), strings.Replace(whole, `"s"`, `""`, 1), strings.Replace(whole, "}", `,"Message":"x"}`, 1),
		strings.Replace(whole, "https:", "http:", 1), strings.Replace(whole, ".com/", ".com@evil.example/", 1), strings.Replace(whole, "Notification", "UnsubscribeConfirmation", 1),
		strings.Replace(whole, "{sig}", `{sig}\n`, 1), "[" + whole + "]", strings.Replace(whole, `"1"`, `"1\nSubject\ns"`, 1),
	} {
		f.Add([]byte(body))
	}
	host := regexp.MustCompile(`^(?i)sns\.[a-z0-9-]{3,}\.amazonaws\.com(\.cn)?$`)
	order := map[string][]string{
		"Notification":             {"Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type"},
		"SubscriptionConfirmation": {"Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type"},
		"UnsubscribeConfirmation":  {"Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type"},
	}
	message := func(body []byte) (text string, good bool) {
		members := plainMembers(body)
		kind, good := plainText(members, "Type")
		for _, name := range order[kind] {
			value, once := plainText(members, name)
			if good = good && once && (value != "" || name == "Subject" || name == "Message"); value != "" || name == "Message" {
				text += name + "\n" + value + "\n"
			}
		}
		return text, good && text != ""
	}
	c := Config{Type: "aws_sns", PublicKeys: []string{publicText(pairs().rsa)}}
	f.Fuzz(func(t *testing.T, body []byte) {
		text, _ := message(body)
		version, _ := plainText(plainMembers(body), "SignatureVersion")
		algorithm := map[string]string{"1": "rsa_sha1"}[version]
		body = bytes.ReplaceAll(body, []byte("{sig}"), []byte(base64.StdEncoding.EncodeToString(privateSignature(t, cmpOr(algorithm, "rsa_sha256"), text))))
		err := mustNew(t, c).Verify(t.Context(), &Request{Header: http.Header{}, Body: body, At: time.Unix(signedAt, 0)})
		if reasonOf(t, err) != "" {
			return
		}
		text, good := message(body)
		members := plainMembers(body)
		certURL, _ := plainText(members, "SigningCertURL")
		u, urlErr := neturl.Parse(certURL)
		sig, _ := plainText(members, "Signature")
		raw, _ := base64.StdEncoding.DecodeString(sig)
		one, two := sha1.Sum([]byte(text)), sha256.Sum256([]byte(text))
		byVersion := map[string]bool{
			"1": rsa.VerifyPKCS1v15(&pairs().rsa.PublicKey, crypto.SHA1, one[:], raw) == nil,
			"2": rsa.VerifyPKCS1v15(&pairs().rsa.PublicKey, crypto.SHA256, two[:], raw) == nil,
		}
		if !good || !byVersion[version] || urlErr != nil || u.Scheme != "https" || u.User != nil || !host.MatchString(u.Hostname()) || !strings.HasSuffix(certURL, ".pem") {
			t.Errorf("%q: verified", body)
		}
	})
}

func FuzzJWT(f *testing.F) {
	for _, header := range []string{`{"alg":"HS256"}`, `{"alg":"none"}`, `{"alg":"HS256","crit":["exp"]}`, `{"alg":"HS256","alg":"none"}`, `{"ALG":"HS256"}`, `{}`, "", `{"alg":"HS512"}`, `{"alg":"HS256","b64":false}`} {
		f.Add("Bearer {token}", header, `{"exp":1300,"iss":"us","aud":["x","me"]}`, int64(1000))
		f.Add("bearer  {token} ", header, `{"exp":900,"iss":"us","aud":"me"}`, int64(1000))
		f.Add("{token}", header, `{"exp":1e3,"nbf":1061,"iat":-1,"iss":"us","aud":"me"}`, int64(1000))
		f.Add("Bearer {token}, {token}", header, `{"exp":null}`, int64(0))
	}
	c := Config{Type: "jwt", Algorithm: "HS256", Secrets: []string{"other", "secret"}, Issuers: []string{"us"}, Audience: "me"}
	f.Fuzz(func(t *testing.T, value, header, claims string, at int64) {
		at %= 1 << 40
		value = strings.ReplaceAll(value, "{token}", plainJWT(t, "HS256", header, claims, []byte("secret")))
		err := mustNew(t, c).Verify(t.Context(), &Request{Header: http.Header{"Authorization": {value}}, At: time.Unix(at, 0)})
		if reasonOf(t, err) != "" {
			return
		}
		scheme, token, _ := strings.Cut(value, " ")
		parts := strings.Split(strings.Trim(token, " \t"), ".")
		if !strings.EqualFold(scheme, "Bearer") || len(parts) != 3 || parts[2] != base64.RawURLEncoding.EncodeToString(macOf("sha256", []byte("secret"), parts[0]+"."+parts[1])) {
			t.Fatalf("%q: verified, but the signature is invalid", value)
		}
		if why := plainlyWrong(parts, at); why != "" {
			t.Errorf("%q with %s at %d: verified, though %s", header, claims, at, why)
		}
	})
}

// plainlyWrong describes the fault of a token whose signature is valid.
func plainlyWrong(parts []string, at int64) string {
	headerJSON, _ := base64.RawURLEncoding.DecodeString(parts[0])
	claimsJSON, _ := base64.RawURLEncoding.DecodeString(parts[1])
	header := plainMembers(headerJSON)
	var claims struct {
		Exp, Nbf, Iat *float64
		Iss           string
		Aud           any
	}
	if alg, once := plainText(header, "alg"); alg != "HS256" || !once || len(header["crit"]) > 0 {
		return "its header is not ours"
	}
	if json.Unmarshal(claimsJSON, &claims) != nil {
		return "its claims cannot be read"
	}
	now := float64(at)
	switch {
	case claims.Exp == nil || now-*claims.Exp > 61:
		return "it has expired"
	case claims.Nbf != nil && *claims.Nbf-now > 61, claims.Iat != nil && *claims.Iat-now > 61:
		return "it is of the future"
	case claims.Iss != "us":
		return "it is of another issuer"
	}
	if list, ok := claims.Aud.([]any); claims.Aud != "me" && (!ok || !slices.Contains(list, any("me"))) {
		return "it is for others"
	}
	return ""
}

// FuzzTemplate checks that the verifier and the tests' signer expand each valid
// template to the same text.
func FuzzTemplate(f *testing.F) {
	for _, template := range []string{"", "{", "}", "{{", "{body}", "{body}{body}", "{timestamp}.{body}", "v0:{timestamp}:{body}", "{header.X-A}{body}{url}", "{headers.X-List}{body}", "{field.a|b.c}", "{header.}", "{field..}",
		"{method}{url_decoded}{body}{timestamp}", "{{{body}}}", "{crc32}|{header.a b}", "{path_encoded}"} {
		f.Add(template, []byte(`{"a":"x"}`))
	}
	f.Fuzz(func(t *testing.T, template string, body []byte) {
		m, wrong := parseMessage(template)
		if wrong != "" {
			return
		}
		r := &Request{Method: http.MethodPost, URL: signedURL, Body: body, Header: http.Header{"X-A": {"a"}, "X-List": {"x-a,x-list"}}}
		view, bad := viewOf(r)
		w, set := &workspace{}, newFieldSet()
		m.locate(set)
		w.found = set.scan(nil, view.json.Raw)
		err := m.compose(w, r, "17")
		if bad != nil && m.has(field) || strings.Count(template, ".") > maxSteps {
			return // refused before the template is expanded
		}
		want := expand(template, r, "17", func(path string) string {
			text, _ := view.text(parseFieldPath(path))
			return text
		})
		got := string(w.before)
		if w.hasBody {
			got += string(r.Body)
		}
		got += string(w.after)
		if err == nil && got != want {
			t.Errorf("%q: got %q, want %q", template, got, want)
		}
		if (err == nil) != (reasonOf(t, nilOr(err)) == "") {
			t.Errorf("%q: %v", template, err)
		}
	})
}

// nilOr converts a nil *Error to a nil error.
func nilOr(err *Error) error {
	if err == nil {
		return nil
	}
	return err
}

// FuzzSpec checks that any JSON can be resolved, that a Spec without faults has a
// Verifier, and that this Verifier does not panic.
func FuzzSpec(f *testing.F) {
	for _, p := range Presets() {
		spec, err := json.Marshal(presetSpec(p, "secret"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(spec)
	}
	for _, c := range append(examples(), filled(), Config{}) {
		spec, err := json.Marshal(Spec{Verifier: &c})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(spec)
	}
	r := signedFor(f, Config{Type: "none"}, "", 10)
	for _, name := range []string{"X-Sig", "Webhook-Signature", "Authorization"} {
		r.Header.Set(name, "x")
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var s Spec
		if json.Unmarshal(data, &s) != nil {
			return
		}
		resolved, faults := s.Resolve("learned")
		again, same := s.Resolve("learned")
		if len(faults) != len(same) || resolved.Config.String() != again.Config.String() {
			t.Errorf("%s: faults %v, and then %v", data, faults, same)
		}
		_, _, _ = resolved.Config.CoversBody(), resolved.Config.SecretHeaders(), resolved.Config.WithDefaults()
		if len(faults) > 0 {
			return
		}
		v, err := resolved.New(nil)
		if v == nil || err != nil {
			t.Fatalf("%s: no faults, but %v", data, err)
		}
		for _, r := range []*Request{r, {}} {
			_ = reasonOf(t, v.Verify(t.Context(), r)) // checks the error
		}
	})
}
