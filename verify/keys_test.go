package verify

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// keyring has key pairs of every kind.
var keyring = sync.OnceValue(func() (k struct {
	rsa, rsa1024     *rsa.PrivateKey
	p224, p256, p521 *ecdsa.PrivateKey
	ed               ed25519.PrivateKey
}) {
	k.rsa, _ = rsa.GenerateKey(rand.Reader, 2048)
	k.rsa1024, _ = rsa.GenerateKey(rand.Reader, 1024)
	k.p224, _ = ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	k.p256, _ = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	k.p521, _ = ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	_, k.ed, _ = ed25519.GenerateKey(rand.Reader)
	return k
})

func spki(public any) []byte {
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		panic(err)
	}
	return der
}

func pemOf(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

func certificateOf(signer crypto.Signer) *x509.Certificate {
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "webhooks"},
		NotBefore:    time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		NotAfter:     time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, signer.Public(), signer)
	if err != nil {
		panic(err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		panic(err)
	}
	return c
}

// jwkOf returns a JWK in which some members are replaced.
func jwkOf(key any, set map[string]any) string {
	text, err := jose.JSONWebKey{Key: key}.MarshalJSON()
	if err != nil {
		panic(err)
	}
	members := map[string]any{}
	if err := json.Unmarshal(text, &members); err != nil {
		panic(err)
	}
	for name, value := range set {
		members[name] = value
	}
	text, _ = json.Marshal(members)
	return string(text)
}

func setOf(jwks ...string) string { return `{"keys":[` + strings.Join(jwks, ",") + `]}` }

type member = map[string]any

func TestParseKeysAccepts(t *testing.T) {
	k := keyring()
	rsaKey, p256, p521, ed := &k.rsa.PublicKey, &k.p256.PublicKey, &k.p521.PublicKey, k.ed.Public().(ed25519.PublicKey)
	certificate := pemOf("CERTIFICATE", certificateOf(k.rsa).Raw)
	// RFC 7517, appendix A.1, and RFC 8037, appendix A.2.
	const rfc7517 = `{"kty":"EC","crv":"P-256","x":"MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4","y":"4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM","kid":"1"}`
	const rfc8037 = `{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}`
	rfcEd, _ := hex.DecodeString("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")
	for _, c := range []struct {
		claim, text string
		want        []any
	}{
		{"PEM, RSA", pemOf("PUBLIC KEY", spki(rsaKey)), []any{rsaKey}},
		{"PEM, ECDSA", pemOf("PUBLIC KEY", spki(p521)), []any{p521}},
		{"PEM, Ed25519", pemOf("PUBLIC KEY", spki(ed)), []any{ed}},
		{"PEM, PKCS 1", pemOf("RSA PUBLIC KEY", x509.MarshalPKCS1PublicKey(rsaKey)), []any{rsaKey}},
		{"PEM, several", "old:\n" + pemOf("PUBLIC KEY", spki(p256)) + "new:\n" + pemOf("RSA PUBLIC KEY", x509.MarshalPKCS1PublicKey(rsaKey)), []any{p256, rsaKey}},
		{"PEM with CRLF", strings.ReplaceAll(pemOf("PUBLIC KEY", spki(ed)), "\n", "\r\n"), []any{ed}},
		{"a certificate", certificate, []any{rsaKey}},
		{"the first certificate of a chain", certificate + pemOf("CERTIFICATE", certificateOf(k.p256).Raw), []any{rsaKey}},
		{"a JWK", jwkOf(rsaKey, nil), []any{rsaKey}},
		{"a JWK for signatures", jwkOf(p521, member{"use": "sig", "key_ops": []string{"verify"}}), []any{p521}},
		{"the JWK of RFC 8037", rfc8037, []any{ed25519.PublicKey(rfcEd)}},
		{"a JWK Set", setOf(jwkOf(ed, nil), jwkOf(p256, nil)), []any{ed, p256}},
		{"the keys of a JWK Set that can verify", setOf(
			jwkOf(rsaKey, member{"use": "enc"}), jwkOf(p256, member{"key_ops": []string{"deriveKey"}}), jwkOf([]byte("a shared secret"), nil),
			jwkOf(&k.rsa1024.PublicKey, nil), `{"kty":"OKP","crv":"X25519","x":"AAAA"}`, `{"kty":"new"}`, `7`, `null`, jwkOf(ed, nil)), []any{ed}},
		{"base64 of DER", base64.StdEncoding.EncodeToString(spki(p256)), []any{p256}},
		{"base64 of DER, in lines", "\n" + base64.StdEncoding.EncodeToString(spki(rsaKey))[:64] + "\n" + base64.StdEncoding.EncodeToString(spki(rsaKey))[64:] + "\n", []any{rsaKey}},
		{"hex", hex.EncodeToString(ed), []any{ed}},
		{"hex in capitals", " " + strings.ToUpper(hex.EncodeToString(ed)) + "\n", []any{ed}},
		{"whpk_", "whpk_" + base64.StdEncoding.EncodeToString(ed), []any{ed}},
		{"whpk1_", "whpk1_" + base64.StdEncoding.EncodeToString(ed), []any{ed}},
		{"the maximum number of keys", strings.Repeat(pemOf("PUBLIC KEY", spki(ed)), maxKeys), repeat(any(ed), maxKeys)},
	} {
		t.Run(c.claim, func(t *testing.T) {
			got, err := ParseKeys(c.text)
			if err != nil || len(got) != len(c.want) {
				t.Fatalf("got %d keys, %v; want %d", len(got), err, len(c.want))
			}
			for i, want := range c.want {
				if !bytes.Equal(spki(got[i].Public), spki(want)) {
					t.Errorf("key %d: got %v, want %v", i, got[i].Public, want)
				}
			}
		})
	}
	if got, err := ParseKeys(rfc7517); err != nil || got[0].ID != "1" {
		t.Errorf("the JWK of RFC 7517: got %v, %v; want the key 1", got, err)
	}
}

func repeat[T any](one T, times int) (all []T) {
	for range times {
		all = append(all, one)
	}
	return all
}

func TestParseKeysMetadata(t *testing.T) {
	k := keyring()
	c := certificateOf(k.p256)
	if got, err := ParseKeys(pemOf("CERTIFICATE", c.Raw)); err != nil || !got[0].NotBefore.Equal(c.NotBefore) || !got[0].NotAfter.Equal(c.NotAfter) {
		t.Errorf("a certificate: got %+v, %v; want %s to %s", got, err, c.NotBefore, c.NotAfter)
	}
	got, err := ParseKeys(setOf(jwkOf(&k.p256.PublicKey, member{"kid": "a", "alg": "ES256"}), jwkOf(k.ed.Public(), nil)))
	if err != nil || got[0].ID != "a" || got[0].Algorithm != "ES256" || got[1].ID != "" || got[1].Algorithm != "" || !got[0].NotAfter.IsZero() {
		t.Errorf("a JWK Set: got %+v, %v; want the key a (ES256) and one without an id", got, err)
	}
}

func TestParseKeysRefuses(t *testing.T) {
	k := keyring()
	rsaKey, ed := &k.rsa.PublicKey, k.ed.Public().(ed25519.PublicKey)
	pkcs8, _ := x509.MarshalPKCS8PrivateKey(k.p256)
	good, whpk := pemOf("PUBLIC KEY", spki(ed)), base64.StdEncoding.EncodeToString(ed)
	offCurve := spki(&k.p256.PublicKey)
	offCurve[len(offCurve)-1] ^= 1
	pkcs1 := func(n *big.Int, e int) string {
		der, _ := asn1.Marshal(struct {
			N *big.Int
			E int
		}{n, e})
		return pemOf("RSA PUBLIC KEY", der)
	}
	huge := new(big.Int).Add(new(big.Int).Lsh(big.NewInt(1), 4096), big.NewInt(1))
	for _, c := range []struct {
		claim, text string
		want        string // in the error
	}{
		{"an empty text", "", errKeyForm.Error()},
		{"white space", " \n", errKeyForm.Error()},
		{"any text", "correct horse battery staple", errKeyForm.Error()},
		{"base64 of something else", base64.StdEncoding.EncodeToString([]byte("correct horse")), errKeyForm.Error()},
		{"a shared secret of 32 bytes", strings.Repeat("x", 32), errKeyForm.Error()},
		{"URL-safe base64", base64.URLEncoding.EncodeToString(append(spki(ed), 0xff, 0xff)), errKeyForm.Error()},
		{"trailing bytes after the DER", base64.StdEncoding.EncodeToString(append(spki(ed), 0)), errKeyForm.Error()},
		{"63 hex digits", hex.EncodeToString(ed)[1:], errKeyForm.Error()},
		{"a short whpk_", "whpk_" + whpk[:40], errKeyForm.Error()},
		{"a whsk_", "whsk_" + base64.StdEncoding.EncodeToString(k.ed), errKeyForm.Error()},
		{"PEM of another type", pemOf("DH PARAMETERS", []byte{1}), errKeyForm.Error()},
		{"a broken PEM", good[:len(good)-10], errKeyForm.Error()},
		{"a broken PEM before a good one", good[:len(good)-10] + "\n" + good, errKeyForm.Error()},
		{"a broken certificate", pemOf("CERTIFICATE", spki(ed)), errKeyForm.Error()},
		{"a PKCS 8 private key", pemOf("PRIVATE KEY", pkcs8), errKeyPrivate.Error()},
		{"a PKCS 1 private key beside a public one", good + pemOf("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(k.rsa)), errKeyPrivate.Error()},
		{"a private JWK, RSA", jwkOf(k.rsa, nil), errKeyPrivate.Error()},
		{"a private JWK, ECDSA", jwkOf(k.p256, nil), errKeyPrivate.Error()},
		{"a private JWK, Ed25519", jwkOf(k.ed, nil), errKeyPrivate.Error()},
		{"an incomplete private JWK", jwkOf(rsaKey, member{"p": "AQAB"}), errKeyPrivate.Error()},
		{"a private JWK in a set", setOf(jwkOf(ed, nil), jwkOf(k.ed, nil)), errKeyPrivate.Error()},
		{"a private JWK of an unknown type in a set", setOf(jwkOf(ed, nil), `{"kty":"new","d":"AQAB"}`), errKeyPrivate.Error()},
		{"a symmetric JWK", jwkOf([]byte("a shared secret"), nil), errKeyKind.Error()},
		{"a set of symmetric JWKs", setOf(jwkOf([]byte("a shared secret"), nil)), errKeysNone.Error()},
		{"an empty set", setOf(), errKeysNone.Error()},
		{"a JWK for encryption", jwkOf(rsaKey, member{"use": "enc"}), errKeyUse.Error()},
		{"a JWK for wrapping keys", jwkOf(rsaKey, member{"key_ops": []string{"wrapKey"}}), errKeyUse.Error()},
		{"a JWK whose key_ops is not a list", jwkOf(rsaKey, member{"key_ops": "verify"}), errKeyUse.Error()},
		{"an unknown JWK", `{"kty":"new"}`, errKeyForm.Error()},
		{"a JWK off its curve", jwkOf(&k.p256.PublicKey, member{"y": base64.RawURLEncoding.EncodeToString(make([]byte, 32))}), errKeyForm.Error()},
		{"other JSON", `{"correct":"horse"}`, errKeyForm.Error()},
		{"truncated JSON", `{"keys":[`, errKeyForm.Error()},
		{"deeply nested JSON", `{"keys":` + strings.Repeat("[", 100_000), errKeyForm.Error()},
		{"RSA of 1024 bits", pemOf("PUBLIC KEY", spki(&k.rsa1024.PublicKey)), "1024 bits"},
		{"RSA of 4097 bits", pkcs1(huge, 65537), "4097 bits"},
		{"RSA with an even modulus", pkcs1(new(big.Int).Add(rsaKey.N, big.NewInt(1)), 65537), errKeyForm.Error()},
		{"RSA with the exponent 1", pkcs1(rsaKey.N, 1), errKeyForm.Error()},
		{"RSA with an even exponent", pkcs1(rsaKey.N, 65536), errKeyForm.Error()},
		{"RSA with a huge exponent", jwkOf(rsaKey, member{"e": "gAAAAQ"}), errKeyForm.Error()},
		{"P-224", pemOf("PUBLIC KEY", spki(&k.p224.PublicKey)), errKeyKind.Error()},
		{"a point off its curve", pemOf("PUBLIC KEY", offCurve), errKeyForm.Error()},
		{"an Ed25519 key of zeros", strings.Repeat("0", 64), errKeyWeak.Error()},
		{"the neutral Ed25519 key", "01" + strings.Repeat("0", 62), errKeyWeak.Error()},
		{"too many PEM blocks", strings.Repeat(good, maxKeys+1), errKeysMany.Error()},
		{"too many JWKs", setOf(repeat(jwkOf(ed, nil), maxKeys+1)...), errKeysMany.Error()},
		{"a text above the maximum", good + strings.Repeat(" ", maxKeysText), "262144"},
	} {
		t.Run(c.claim, func(t *testing.T) {
			got, err := ParseKeys(c.text)
			if err == nil || got != nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, %v; want %s", got, err, c.want)
			}
			if err != nil && strings.Contains(err.Error(), "horse") {
				t.Errorf("the error contains the text: %v", err)
			}
		})
	}
}

// The parsers refuse such points, too, so ParseKeys cannot be used in this test.
func TestPointOffCurveIsRefused(t *testing.T) {
	off := &ecdsa.PublicKey{Curve: elliptic.P256(), X: big.NewInt(1), Y: big.NewInt(1)} //nolint:staticcheck // the newer functions create no invalid key
	if got, err := newKey(off); err == nil {
		t.Errorf("got %v, want an error", got)
	}
}

func FuzzParseKeys(f *testing.F) {
	k := keyring()
	ed := k.ed.Public().(ed25519.PublicKey)
	for _, seed := range []string{
		"", "{", "{}", `{"keys":[]}`, `{"keys":[null]}`, "-----BEGIN ", "whpk_", "whpk1_AAAA",
		pemOf("PUBLIC KEY", spki(&k.p256.PublicKey)),
		pemOf("RSA PUBLIC KEY", x509.MarshalPKCS1PublicKey(&k.rsa.PublicKey)),
		pemOf("CERTIFICATE", certificateOf(k.p256).Raw),
		pemOf("PRIVATE KEY", nil) + pemOf("PUBLIC KEY", spki(ed)),
		jwkOf(&k.rsa.PublicKey, member{"kid": "a", "alg": "RS256", "use": "sig"}),
		setOf(jwkOf(&k.p521.PublicKey, member{"key_ops": []string{"verify"}}), jwkOf([]byte("secret"), nil), jwkOf(ed, nil)),
		jwkOf(&k.p256.PublicKey, member{"x5c": []string{base64.StdEncoding.EncodeToString(certificateOf(k.p256).Raw)}}),
		base64.StdEncoding.EncodeToString(spki(&k.p256.PublicKey)),
		hex.EncodeToString(ed),
		"whpk_" + base64.StdEncoding.EncodeToString(ed),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		keys, err := ParseKeys(text)
		if (err == nil) != (len(keys) > 0) || len(keys) > maxKeys {
			t.Fatalf("got %d keys and the error %v", len(keys), err)
		}
		for _, key := range keys {
			switch key.Public.(type) {
			case *rsa.PublicKey, *ecdsa.PublicKey, ed25519.PublicKey:
			default:
				t.Fatalf("got a %T, want a public key", key.Public)
			}
			der, err := x509.MarshalPKIXPublicKey(key.Public)
			if err != nil {
				t.Fatalf("newKey refuses a parsed key: %v", err)
			}
			again, err := ParseKeys(base64.StdEncoding.EncodeToString(der))
			if err != nil || !bytes.Equal(spki(again[0].Public), der) {
				t.Fatalf("the same key in another form: got %v, %v", again, err)
			}
		}
	})
}
