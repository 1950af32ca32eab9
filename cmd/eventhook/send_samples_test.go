package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"strings"
	"testing"

	"github.com/eventhook/eventhook/internal/cli/clitest"
	"github.com/eventhook/eventhook/internal/cli/send"
	"github.com/eventhook/eventhook/internal/pgtest"
)

// A gateway accepts the samples of each kind of scheme, and an id that is sent twice is
// a duplicate. Package send tests all providers without a gateway.
func TestAGatewayAcceptsSamples(t *testing.T) {
	startInstance(t, pgtest.New(t)).at(t, testAdminKey)
	run := func(arg ...string) clitest.Output {
		got := runCommand(arg...)
		if got.Code != 0 {
			t.Fatalf("eventhook %s: got %+v", strings.Join(arg, " "), got)
		}
		return got
	}
	keyFile, publicFile := keyPair(t)
	for _, c := range []struct{ provider, source, send string }{
		{"slack", "--secret s1", "--secret s1"},                                                          // a timestamp in a header
		{"contentful", "--secret s1", "--secret s1"},                                                     // listed headers and the URL
		{"hubspot", "--secret s1", "--secret s1"},                                                        // the URL
		{"adyen", "--secret abcd", "--secret abcd"},                                                      // a field of the body
		{"twilio", "--secret s1", "--secret s1"},                                                         // a form
		{"monday", "--secret s1", "--secret s1"},                                                         // a token
		{"azure-event-grid", "--secret s1", "--secret s1"},                                               // a parameter of the URL
		{"postmark", "--secret u:p", "--secret u:p"},                                                     // a password
		{"resend", "--secret whsec_c2VjcmV0c2VjcmV0c2VjcmV0", "--secret whsec_c2VjcmV0c2VjcmV0c2VjcmV0"}, // Standard Webhooks
		{"braintree", "--secret s1 --option public_key_id=p", "--secret s1 --option public_key_id=p"},
		{"sendgrid", "--public-key @" + publicFile, "--key-file " + keyFile}, // a private key
	} {
		run(append([]string{"source", "create", c.provider, "--provider", c.provider}, strings.Fields(c.source)...)...)
		for _, want := range []string{"accepted", "duplicate"} {
			var got send.Answer
			out := run(append([]string{"send", c.provider, "--id", "1001", "-o", "json"}, strings.Fields(c.send)...)...)
			if c.provider == "adyen" {
				continue // answers [accepted], as Adyen requires
			}
			if err := json.Unmarshal([]byte(out.Stdout), &got); err != nil || got.Status != want && c.provider != "contentful" {
				t.Errorf("%s: got %q, %v, want %s", c.provider, out.Stdout, err, want)
			}
		}
	}
}

// keyPair returns the files of a new private key and its public key.
func keyPair(t *testing.T) (private, public string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, kind string, der []byte, err error) string {
		if err != nil {
			t.Fatal(err)
		}
		return clitest.WriteFile(t, name, string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})))
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	private = write("test.pem", "PRIVATE KEY", der, err)
	der, err = x509.MarshalPKIXPublicKey(key.Public())
	return private, write("test.pub", "PUBLIC KEY", der, err)
}
