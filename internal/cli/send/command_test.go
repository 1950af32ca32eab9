package send

import (
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"strings"
	"testing"

	"github.com/eventhook/eventhook/internal/cli"
	"github.com/eventhook/eventhook/internal/cli/clitest"
	"github.com/eventhook/eventhook/verify"
)

func TestHelpListsTheProviders(t *testing.T) {
	out := runCommand("send", "--help")
	words := strings.Fields(out.Stdout)
	listed := map[string]bool{}
	for _, w := range words {
		listed[w] = true
	}
	for _, id := range verify.Providers() {
		if !listed[id] {
			t.Errorf("the help does not list %s", id)
		}
	}
	for line := range strings.Lines(out.Stdout[strings.Index(out.Stdout, "Providers:"):]) {
		if len(line) > 80 && !strings.Contains(line, "--") {
			t.Errorf("a line is too long: %q", line)
		}
	}
}

func TestProvidersAndSchemesAreCompleted(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"send", "git"}, "gitea github gitlab"},
		{[]string{"send", "github", "g"}, ""},
		{[]string{"send", "hubspot", "--scheme", ""}, "hubspot-v3 hubspot-v2 hubspot-v1"},
		{[]string{"send", "hubspot", "--output", ""}, "table json"},
	} {
		out := runCommand(append([]string{"__complete"}, c.args...)...)
		values, directive, _ := strings.Cut(out.Stdout, ":")
		if got := strings.Join(strings.Fields(values), " "); got != c.want || !strings.HasPrefix(directive, "4") {
			t.Errorf("%v: got %q and directive %q, want %q without files", c.args, got, directive, c.want)
		}
	}
}

func TestSendRefuses(t *testing.T) {
	clitest.ClearEnvironment(t)
	noKey := clitest.WriteFile(t, "no.pem", "not a key")
	s := newSink(t, http.StatusOK, "")
	for _, c := range []struct {
		claim string
		args  []string
		says  string
	}{
		{"an unknown provider", []string{"githab", "--secret", testSecret}, `there is no sample of "githab"; eventhook send --help lists the providers`},
		{"an unknown scheme", []string{"hubspot", "--scheme", "v9", "--secret", testSecret}, `--scheme "v9", want one of hubspot-v3, hubspot-v2, hubspot-v1`},
		{"no secret", []string{"slack"}, "a secret is required"},
		{"a secret in another encoding", []string{"adyen", "--secret", testSecret}, "adyen: secrets[0]: is not hex"},
		{"a signed option that is missing", []string{"braintree", "--secret", testSecret}, "--option public_key_id=… is required"},
		{"an unknown option", []string{"github", "--secret", testSecret, "--option", "a=b"}, "options.a: is not an option of this provider"},
		{"an option without a value", []string{"github", "--secret", testSecret, "--option", "a"}, `--option "a", want name=value`},
		{"an id that JSON must escape", []string{"stripe", "--secret", testSecret, "--id", `a"b`}, `--id "a\"b": want printable ASCII`},
		{"a type in one part", []string{"linear", "--secret", testSecret, "--type", "Issue"}, "types of linear have two parts, such as Issue.create"},
		{"a type of webhooks without one", []string{"airtable", "--secret", "c2VjcmV0", "--type", "x"}, "have no type that can be chosen"},
		{"no private key", []string{"discord"}, "eventhook source create discord-test --provider discord --public-key @test.pub"},
		{"no private key, with an option", []string{"aws-sns"}, "eventhook send aws-sns --source aws-sns-test --key-file test.pem --option topic_arn=…"},
		{"a file without a key", []string{"discord", "--key-file", noKey}, "want a private key in PEM"},
		{"a file that does not exist", []string{"discord", "--key-file", noKey + "x"}, "no such file"},
		{"a body that cannot be signed", []string{"mailgun", "--secret", testSecret, "--body-file", noKey}, "the request cannot be signed"},
	} {
		out := runCommand(append([]string{"send", "--url", s.URL}, c.args...)...)
		if out.Code != cli.ExitUsage || !strings.Contains(out.Stderr, c.says) || strings.Contains(out.Stderr, testSecret) {
			t.Errorf("%s: got %+v, want %q and no secret", c.claim, out, c.says)
		}
	}
	if len(s.got) > 0 {
		t.Errorf("sent %d requests, want none", len(s.got))
	}
}

// A private key can have each form that OpenSSL writes.
func TestKeyFiles(t *testing.T) {
	clitest.ClearEnvironment(t)
	keys := keysOf()
	pkcs8 := func(name string) []byte { der, _ := x509.MarshalPKCS8PrivateKey(keys[name]); return der }
	ec, _ := x509.MarshalECPrivateKey(keys["EC"].(*ecdsa.PrivateKey))
	for _, c := range []struct {
		provider, kind string
		der            []byte
		says           string
	}{
		{"discord", "PRIVATE KEY", pkcs8("ed25519"), ""},
		{"sendgrid", "PRIVATE KEY", pkcs8("EC"), ""},
		{"sendgrid", "EC PRIVATE KEY", ec, ""},
		{"kick", "RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(keys["RSA"].(*rsa.PrivateKey)), ""},
		{"discord", "PRIVATE KEY", pkcs8("EC"), "public_keys[0]: is not a key for ed25519"},
	} {
		file := clitest.WriteFile(t, "test.pem", string(pem.EncodeToMemory(&pem.Block{Type: c.kind, Bytes: c.der})))
		s := newSink(t, http.StatusOK, "")
		out := runCommand("send", c.provider, "--url", s.URL, "--key-file", file)
		if (out.Code == 0) != (c.says == "") || !strings.Contains(out.Stderr, c.says) {
			t.Errorf("%s with %s: got %+v, want %q", c.provider, c.kind, out, c.says)
		}
	}
}

// The signature covers --public-url, and parameters that a scheme adds reach the receiver.
func TestPublicURLIsSigned(t *testing.T) {
	clitest.ClearEnvironment(t)
	s := newSink(t, http.StatusOK, "")
	for _, provider := range []string{"square", "azure-event-grid"} {
		if out := runCommand("send", provider, "--secret", testSecret, "--url", s.URL+"/in", "--public-url", publicURL+"/in"); out.Code != 0 {
			t.Fatal(out)
		}
		r := s.got[len(s.got)-1].Request
		resolved, _ := verify.Spec{Provider: provider, Secrets: []string{testSecret}}.Resolve()
		v, err := resolved.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		r.URL = publicURL + "/in" + s.got[len(s.got)-1].query
		if err := v.Verify(t.Context(), &r); err != nil {
			t.Errorf("%s: %v at %s", provider, err, r.URL)
		}
	}
}
