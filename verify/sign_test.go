package verify

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"hash/crc32"
	"net/http"
	neturl "net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// This file signs requests like providers do. It shares no code with the verifiers,
// so that it is a second implementation of each Config.

const (
	signedAt  = 1_800_000_000
	signedURL = "https://hooks.example.com/in/source?x=1"
)

// pairs returns the key pairs for signing, generated once.
var pairs = sync.OnceValue(func() (p struct {
	rsa   *rsa.PrivateKey
	ecdsa *ecdsa.PrivateKey
	ed    ed25519.PrivateKey
}) {
	p.rsa, _ = rsa.GenerateKey(rand.Reader, 2048)
	p.ecdsa, _ = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	_, p.ed, _ = ed25519.GenerateKey(rand.Reader)
	return p
})

// publicText returns the public key in the form of a configuration.
func publicText(k crypto.Signer) string {
	der, err := x509.MarshalPKIXPublicKey(k.Public())
	if err != nil {
		panic(err)
	}
	return base64.StdEncoding.EncodeToString(der)
}

func macOf(algorithm string, key []byte, message string) []byte {
	h := hmac.New(plainHash(algorithm), key)
	h.Write([]byte(message))
	return h.Sum(nil)
}

func plainHash(algorithm string) func() hash.Hash {
	return map[string]func() hash.Hash{"sha1": sha1.New, "": sha256.New, "sha256": sha256.New, "sha512": sha512.New}[algorithm]
}

func hexMAC(secret, message string) string {
	return hex.EncodeToString(macOf("sha256", []byte(secret), message))
}

// secretAs encodes a key as a configured secret.
func secretAs(encoding, key string) string {
	switch encoding {
	case "base64":
		return base64.StdEncoding.EncodeToString([]byte(key))
	case "hex":
		return hex.EncodeToString([]byte(key))
	}
	return key
}

// keyOf decodes a configured secret.
func keyOf(encoding, key string) []byte {
	if encoding == "sha1" {
		sum := sha1.Sum([]byte(key))
		return sum[:]
	}
	return []byte(key)
}

// presetSpec returns a Spec of a preset with all options and suitable keys.
func presetSpec(p Preset, key string) Spec {
	s := Spec{Provider: p.ID, Scheme: p.Scheme, Options: map[string]string{}}
	for _, o := range p.Options {
		if o.Required {
			s.Options[o.Name] = "given"
		}
	}
	c := p.Verifier
	switch {
	case c.Type == "standard_webhooks" && c.SecretEncoding == "":
		s.Secrets = []string{"whsec_" + secretAs("base64", key)}
	case c.Type == "basic_auth":
		s.Secrets = []string{"user:" + key}
	case c.Type == "aws_sns", c.Type == "public_key", c.Type == "jwt" && !strings.HasPrefix(c.Algorithm, "HS"):
		s.PublicKeys = []string{publicText(signerFor(c))}
		if p.HandshakeSecret {
			s.Secrets = []string{key}
		}
	default:
		s.Secrets = []string{secretAs(c.SecretEncoding, key)}
	}
	return s
}

func signerFor(c Config) crypto.Signer {
	switch {
	case strings.HasPrefix(c.Algorithm, "ecdsa"), strings.HasPrefix(c.Algorithm, "ES"):
		return pairs().ecdsa
	case c.Type == "public_key" && (c.Algorithm == "" || c.Algorithm == "ed25519"):
		return pairs().ed
	}
	return pairs().rsa
}

// signedFor returns a request of about size bytes that is signed with key for c.
func signedFor(t testing.TB, c Config, key string, size int) *Request {
	t.Helper()
	r := &Request{Method: http.MethodPost, URL: signedURL, Header: http.Header{}, At: time.Unix(signedAt, 0)}
	r.Header.Set("Content-Type", "application/json")
	r.Body = paddedJSON(map[string]any{}, size)
	for name, value := range c.RequireHeaders {
		r.Header.Set(name, value)
	}
	switch c.Type {
	case "api_key":
		signToken(c, r, key, size)
	case "basic_auth":
		r.Header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte("user:"+key)))
	case "hmac", "hash", "timestamped_hmac", "public_key":
		signHeader(t, c, r, key, size)
	case "standard_webhooks":
		signStandard(c, r, key)
	case "body_hmac":
		signBody(c, r, key, size)
	case "url_form_hmac":
		signForm(c, r, key, size)
	case "jwt":
		r.Header.Set(cmpOr(c.Header, "Authorization"), c.Prefix+tokenFor(t, c, r, key))
	case "aws_sns":
		signSNS(t, r, size)
	case "none":
	default:
		t.Fatalf("signing is not implemented for %s", c.Type)
	}
	return r
}

func cmpOr(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// paddedJSON returns an object of about size bytes with the members.
func paddedJSON(members map[string]any, size int) []byte {
	members["padding"] = ""
	short, _ := json.Marshal(members)
	members["padding"] = strings.Repeat("0123456789abcdef", size/16+1)[:max(0, size-len(short))]
	body, _ := json.Marshal(members)
	return body
}

// put sets the member at a path with dots; # stands for one element.
func put(members map[string]any, path string, value any) {
	path, _, _ = strings.Cut(path, "|")
	first, rest, more := strings.Cut(path, ".")
	if !more {
		members[first] = value
		return
	}
	if below, ok := strings.CutPrefix(rest, "#."); ok {
		element := map[string]any{}
		put(element, below, value)
		members[first] = []any{element}
		return
	}
	below, ok := members[first].(map[string]any)
	if !ok {
		below = map[string]any{}
		members[first] = below
	}
	put(below, rest, value)
}

func signToken(c Config, r *Request, key string, size int) {
	switch {
	case c.Path != "":
		members := map[string]any{}
		put(members, c.Path, key)
		r.Body = paddedJSON(members, size)
	case c.Header != "":
		r.Header.Set(c.Header, c.Prefix+key)
	default:
		r.URL += "&" + neturl.Values{c.Query: {key}}.Encode()
	}
}

// stampAs formats the time of signing for c.
func stampAs(c Config) string {
	switch c.TimestampUnit {
	case "milliseconds":
		return strconv.Itoa(signedAt * 1000)
	case "rfc3339":
		return time.Unix(signedAt, 0).UTC().Format(time.RFC3339)
	}
	return strconv.Itoa(signedAt)
}

func signHeader(t testing.TB, c Config, r *Request, key string, size int) {
	stamp := stampAs(c)
	if c.TimestampHeader != "" {
		r.Header.Set(c.TimestampHeader, stamp)
	}
	if c.TimestampPath != "" {
		members := map[string]any{}
		put(members, c.TimestampPath, json.RawMessage(stamp))
		r.Body = paddedJSON(members, size)
	}
	template := cmpOr(c.Signed, "{body}")
	if c.Signed == "" && c.Type == "timestamped_hmac" {
		template = "{timestamp}.{body}"
	}
	if c.Signed == "" && c.Type == "public_key" && c.TimestampHeader != "" {
		template = "{timestamp}{body}"
	}
	for _, m := range regexp.MustCompile(`\{header\.([^}]*)\}`).FindAllStringSubmatch(template, -1) {
		r.Header.Set(m[1], "id-1")
	}
	for _, m := range regexp.MustCompile(`\{headers\.([^}]*)\}`).FindAllStringSubmatch(template, -1) {
		r.Header.Set(m[1], strings.ToLower("Content-Type, "+m[1]+","+c.TimestampHeader))
	}
	if c.CertificateHeader != "" {
		r.Header.Set(c.CertificateHeader, "https://"+strings.Replace(c.CertificateHosts[0], "*.", "api.", 1)+"/certificate")
		if strings.Contains(c.CertificateHosts[0], "/") {
			r.Header.Set(c.CertificateHeader, "https://"+c.CertificateHosts[0]+"certificate")
		}
	}
	message := expand(template, r, stamp, nil)
	sum := encodeAs(c.Encoding, rawSignature(t, c, key, message))
	switch {
	case c.HeaderJSON != "":
		sum = base64.StdEncoding.EncodeToString([]byte(`{"alg":"x","` + c.HeaderJSON + `":"` + sum + `"}`))
	case c.Type == "timestamped_hmac" && c.TimestampHeader == "" && c.TimestampPath == "":
		sum = cmpOr(c.TimestampKey, "t") + "=" + stamp + cmpOr(c.Separator, ",") + cmpOr(c.SignatureKey, "v1") + "=" + sum
	}
	r.Header.Set(c.Header, c.Prefix+sum)
}

func encodeAs(encoding string, raw []byte) string {
	if encoding == "base64" {
		return base64.StdEncoding.EncodeToString(raw)
	}
	return hex.EncodeToString(raw)
}

func rawSignature(t testing.TB, c Config, key, message string) []byte {
	t.Helper()
	switch c.Type {
	case "public_key":
		return privateSignature(t, cmpOr(c.Algorithm, "ed25519"), message)
	case "hash":
		h := plainHash(c.Algorithm)()
		h.Write(append(keyOf(c.SecretEncoding, key), message...))
		return h.Sum(nil)
	}
	return macOf(c.Algorithm, keyOf(c.SecretEncoding, key), message)
}

func privateSignature(t testing.TB, algorithm, message string) []byte {
	t.Helper()
	var digest []byte
	var h crypto.Hash
	switch {
	case strings.HasSuffix(algorithm, "sha1"):
		sum := sha1.Sum([]byte(message))
		digest, h = sum[:], crypto.SHA1
	default:
		sum := sha256.Sum256([]byte(message))
		digest, h = sum[:], crypto.SHA256
	}
	var sig []byte
	var err error
	switch {
	case algorithm == "ed25519":
		return ed25519.Sign(pairs().ed, []byte(message))
	case strings.HasPrefix(algorithm, "ecdsa"):
		sig, err = ecdsa.SignASN1(rand.Reader, pairs().ecdsa, digest)
	default:
		sig, err = rsa.SignPKCS1v15(nil, pairs().rsa, h, digest)
	}
	if err != nil {
		t.Fatal(err)
	}
	return sig
}

var placeholderText = regexp.MustCompile(`\{\{|\{[^}]*\}`)

// expand returns the text of a template for a request.
func expand(template string, r *Request, stamp string, field func(path string) string) string {
	return placeholderText.ReplaceAllStringFunc(template, func(p string) string {
		if p == "{{" {
			return "{"
		}
		kind, rest, _ := strings.Cut(strings.Trim(p, "{}"), ".")
		switch kind {
		case "body":
			return string(r.Body)
		case "timestamp":
			return stamp
		case "method":
			return r.Method
		case "url", "url_decoded": // equal for URLs without escapes
			return r.URL
		case "path_encoded":
			_, rest, _ := strings.Cut(r.URL, "://")
			_, path, _ := strings.Cut(rest, "/")
			path, query, _ := strings.Cut(path, "?")
			return "/" + path + "?" + strings.ReplaceAll(query, "=", "%253D")
		case "crc32":
			return fmt.Sprint(crc32.ChecksumIEEE(r.Body))
		case "header":
			return r.Header.Get(rest)
		case "headers":
			var listed []string
			for _, name := range strings.Split(r.Header.Get(rest), ",") {
				name = strings.ToLower(strings.TrimSpace(name))
				listed = append(listed, name+":"+r.Header.Get(name))
			}
			slices.Sort(listed)
			return strings.Join(listed, ";")
		case "field":
			return field(rest)
		}
		return "?"
	})
}

func signStandard(c Config, r *Request, key string) {
	family := strings.TrimSuffix(cmpOr(c.Header, "webhook-signature"), "-signature")
	stamp := strconv.Itoa(signedAt)
	r.Header.Set(family+"-id", "msg_1")
	r.Header.Set(family+"-timestamp", stamp)
	r.Header.Set(family+"-signature", "v1,"+encodeAs("base64", macOf("sha256", []byte(key), "msg_1."+stamp+"."+string(r.Body))))
}

func signBody(c Config, r *Request, key string, size int) {
	members := map[string]any{}
	message := expand(c.Signed, r, "", func(path string) string {
		put(members, path, "value")
		return "value"
	})
	put(members, c.Path, c.Prefix+encodeAs(c.Encoding, macOf(c.Algorithm, keyOf(c.SecretEncoding, key), message)))
	if c.Items != "" {
		whole := map[string]any{}
		put(whole, c.Items, members)
		members = whole
	}
	r.Body = paddedJSON(members, size)
}

func signForm(c Config, r *Request, key string, size int) {
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	values, message := neturl.Values{}, r.URL
	for n := range max(1, size/32) {
		name, value := fmt.Sprintf("Field%03d", n), "0123456789abcdef012345"
		values.Set(name, value)
		message += name + value
	}
	r.Body = []byte(values.Encode())
	r.Header.Set(c.Header, c.Prefix+encodeAs(c.Encoding, macOf(c.Algorithm, keyOf(c.SecretEncoding, key), message)))
}

// tokenFor returns a token with all claims that c requires.
func tokenFor(t testing.TB, c Config, r *Request, key string) string {
	claims := map[string]any{"exp": signedAt + 300, "iat": signedAt}
	for name, value := range c.Claims {
		claims[name] = value
	}
	if len(c.Issuers) > 0 {
		claims["iss"] = c.Issuers[0]
	}
	if c.Audience != "" {
		claims["aud"] = strings.ReplaceAll(c.Audience, "{url}", r.URL)
	}
	if c.BodyHashClaim != "" {
		sum := sha256.Sum256(r.Body)
		claims[c.BodyHashClaim] = hex.EncodeToString(sum[:])
	}
	algorithm := cmpOr(c.Algorithm, "RS256")
	return plainJWT(t, algorithm, map[string]any{"alg": algorithm}, claims, keyOf(c.SecretEncoding, key))
}

// plainJWT signs a header and claims, which are JSON texts or values to marshal.
func plainJWT(t testing.TB, algorithm string, header, claims any, key []byte) string {
	t.Helper()
	segment := func(v any) string {
		text, ok := v.(string)
		if !ok {
			data, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			text = string(data)
		}
		return base64.RawURLEncoding.EncodeToString([]byte(text))
	}
	input := segment(header) + "." + segment(claims)
	var sig []byte
	switch algorithm {
	case "HS256":
		sig = macOf("sha256", key, input)
	case "RS256":
		sig = privateSignature(t, "rsa_sha256", input)
	case "ES256":
		digest := sha256.Sum256([]byte(input))
		r, s, err := ecdsa.Sign(rand.Reader, pairs().ecdsa, digest[:])
		if err != nil {
			t.Fatal(err)
		}
		sig = append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
	default:
		t.Fatalf("signing a token is not implemented for %s", algorithm)
	}
	return input + "." + base64.RawURLEncoding.EncodeToString(sig)
}

func signSNS(t testing.TB, r *Request, size int) {
	members := map[string]any{"Type": "Notification", "MessageId": "id-1", "TopicArn": "arn:aws:sns:us-east-1:1:orders", "Timestamp": "2027-01-15T08:00:00Z",
		"Message": strings.Repeat("0123456789abcdef", size/16), "SignatureVersion": "2", "SigningCertURL": "https://sns.us-east-1.amazonaws.com/SimpleNotificationService-0a.pem"}
	message := ""
	for _, name := range []string{"Message", "MessageId", "Timestamp", "TopicArn", "Type"} {
		message += name + "\n" + members[name].(string) + "\n"
	}
	members["Signature"] = base64.StdEncoding.EncodeToString(privateSignature(t, "rsa_sha256", message))
	r.Body, _ = json.Marshal(members)
}

// TestEveryPresetVerifiesItsSignatures signs a request for each preset from its
// Config, and then modifies the request.
func TestEveryPresetVerifiesItsSignatures(t *testing.T) {
	for _, p := range Presets() {
		t.Run(p.ID+"/"+p.Scheme, func(t *testing.T) {
			c, v := presetVerifier(t, p, "secret")
			r := signedFor(t, c, "secret", 1024)
			if err := v.Verify(t.Context(), r); err != nil {
				t.Fatalf("the signed request: %v, want it verified", err)
			}
			if p.Verifier.Type == "public_key" || p.Verifier.Type == "aws_sns" || p.Verifier.KeySetURL != "" || p.ID == "plaid" {
				return // there is only one key pair
			}
			forged := signedFor(t, c, "forged", 1024)
			if err := v.Verify(t.Context(), forged); reasonOf(t, err) == "" {
				t.Error("signed with another secret, and verified")
			}
			changed := *r
			changed.Body = append(slices.Clone(r.Body[:len(r.Body)-1]), ' ', r.Body[len(r.Body)-1])
			if err := v.Verify(t.Context(), &changed); (reasonOf(t, err) != "") != c.CoversBody() {
				t.Errorf("a space more in the body: %v, though CoversBody is %t", err, c.CoversBody())
			}
		})
	}
}

// presetVerifier returns a preset's verifier for one key, and its complete Config.
func presetVerifier(t testing.TB, p Preset, key string) (Config, Verifier) {
	t.Helper()
	resolved, faults := presetSpec(p, key).Resolve()
	if len(faults) > 0 {
		t.Fatalf("%s, %s: faults %v, want none", p.ID, p.Scheme, faults)
	}
	v, err := resolved.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return resolved.Config, v
}
