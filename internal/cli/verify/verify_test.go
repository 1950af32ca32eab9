package verify

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook/internal/cli"
	"github.com/eventhook/eventhook/internal/cli/clitest"
	"github.com/eventhook/eventhook/verify"
)

func macOf(secret, text string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	_, _ = mac.Write([]byte(text))
	return hex.EncodeToString(mac.Sum(nil))
}

// token returns a JSON Web Token with the claims, signed with testSecret.
func token(claims string) string {
	encode := base64.RawURLEncoding.EncodeToString
	text := encode([]byte(`{"alg":"HS256","typ":"JWT"}`)) + "." + encode([]byte(claims))
	mac := hmac.New(sha256.New, []byte(testSecret))
	_, _ = mac.Write([]byte(text))
	return text + "." + encode(mac.Sum(nil))
}

// lineOf decodes the line of JSON that a command printed.
func lineOf(t *testing.T, got clitest.Output) map[string]any {
	t.Helper()
	var line map[string]any
	if err := json.Unmarshal([]byte(got.Stdout), &line); err != nil || strings.Count(got.Stdout, "\n") != 1 {
		t.Fatalf("got %+v, want one line of JSON (%v)", got, err)
	}
	return line
}

// onStdin makes text the standard input of the process during the test.
func onStdin(t *testing.T, text string) {
	t.Helper()
	f, err := os.Open(clitest.WriteFile(t, "stdin", text))
	if err != nil {
		t.Fatal(err)
	}
	before := os.Stdin
	os.Stdin = f
	t.Cleanup(func() { os.Stdin = before; _ = f.Close() })
}

const pushBody = `{"ref":"main"}`

// verifyPush verifies a push of GitHub with additional flags.
func verifyPush(t *testing.T, signature string, more ...string) clitest.Output {
	t.Helper()
	return runCommand(append([]string{"verify", "--provider", "github", "--secret", testSecret, "-H", "X-Hub-Signature-256: " + signature,
		"-H", "X-GitHub-Event: push", "-H", "X-GitHub-Delivery: d-1", "--body-file", clitest.WriteFile(t, "body", pushBody)}, more...)...)
}

func TestVerifyOutput(t *testing.T) {
	clitest.ClearEnvironment(t)
	for _, c := range []struct {
		claim, signature string
		code             int
		want             string
	}{
		{"verified", "sha256=" + macOf(testSecret, pushBody), 0,
			`{"verified":true,"scheme":"github","error":null,"event_type":"push","idempotency_key":"d-1","covers_body":true}`},
		{"forged", "sha256=" + macOf("other", pushBody), cli.ExitFailed,
			`{"verified":false,"scheme":"github","error":"mismatch: no secret matched (of 1)","event_type":"push","idempotency_key":"d-1","covers_body":true}`},
	} {
		got := verifyPush(t, c.signature)
		if got.Code != c.code || got.Stdout != c.want+"\n" || got.Stderr != "" {
			t.Errorf("%s: got %+v, want exit code %d and only\n%s", c.claim, got, c.code, c.want)
		}
	}
	got := runCommand("verify", "--verifier", `{"type":"none"}`)
	want := `{"verified":true,"scheme":"none","error":null,"event_type":null,"idempotency_key":null,"covers_body":false}` + "\n"
	if got.Code != 0 || got.Stdout != want {
		t.Errorf("got %+v, want %s", got, want)
	}
}

func TestVerifyReportsTheFailedPart(t *testing.T) {
	clitest.ClearEnvironment(t)
	right := macOf(testSecret, pushBody)
	stripe := func(at int64) []string {
		s := fmt.Sprint(at)
		return []string{"verify", "--provider", "stripe", "--secret", testSecret, "--body-file", clitest.WriteFile(t, "body", pushBody),
			"-H", "Stripe-Signature: t=" + s + ",v1=" + macOf(testSecret, s+"."+pushBody)}
	}
	now := time.Now().Unix()
	const long = "2026-03-10T12:00:00Z"
	at, err := time.Parse(time.RFC3339, long)
	if err != nil {
		t.Fatal(err)
	}
	github := func(signature string) []string {
		return []string{"verify", "--provider", "github", "--secret", testSecret, "-H", "X-Hub-Signature-256:" + signature, "--body-file", clitest.WriteFile(t, "body", pushBody)}
	}
	for _, c := range []struct {
		claim  string
		args   []string
		reason verify.Reason // "" if verified
	}{
		{"no header", []string{"verify", "--provider", "github", "--secret", testSecret}, verify.ReasonMissingHeader},
		{"no field", []string{"verify", "--provider", "microsoft-graph", "--secret", testSecret, "-H", "Content-Type: application/json", "--body-file", clitest.WriteFile(t, "b", `{}`)}, verify.ReasonMissingField},
		{"wrong prefix", github("sha1=" + right), verify.ReasonPrefix},
		{"wrong encoding", github("sha256=zz"), verify.ReasonEncoding},
		{"wrong body", github("sha256=" + macOf(testSecret, "x")), verify.ReasonMismatch},
		{"upper case", github("sha256=" + strings.ToUpper(right)), ""},
		{"wrong token", []string{"verify", "--provider", "telegram", "--secret", testSecret, "-H", "X-Telegram-Bot-Api-Secret-Token: x"}, verify.ReasonCredentials},
		{"a malformed timestamp", []string{"verify", "--provider", "stripe", "--secret", testSecret, "-H", "Stripe-Signature: t=x,v1=" + right}, verify.ReasonMalformed},
		{"now", stripe(now), ""},
		{"an hour ago", stripe(now - 3600), verify.ReasonTimestamp},
		{"an hour ago, received then, in Unix seconds", append(stripe(now-3600), "--at", fmt.Sprint(now-3600)), ""},
		{"received at an RFC 3339 time", append(stripe(at.Unix()), "--at", long), ""},
		{"an hour ago, within a tolerance", append(stripe(now-3600), "--tolerance", "4000"), ""},
		{"an hour ago, without a tolerance", append(stripe(now-3600), "--tolerance", "0"), ""},
		{"no secret yet", []string{"verify", "--provider", "asana"}, verify.ReasonKey},
		{"no token", []string{"verify", "--provider", "monday", "--secret", testSecret, "-H", "Authorization: x"}, verify.ReasonEncoding},
		{"a token for another URL", []string{"verify", "--provider", "monday", "--secret", testSecret, "--url", "https://h/in",
			"-H", "Authorization: " + token(`{"aud":"https://other/in","exp":9999999999}`)}, verify.ReasonToken},
		{"a token for this URL", []string{"verify", "--provider", "monday", "--secret", testSecret, "--url", "https://h/in",
			"-H", "Authorization: " + token(`{"aud":"https://h/in","exp":9999999999}`)}, ""},
		{"keys that are not fetched", []string{"verify", "--provider", "google-pubsub", "--option", "email=a@b", "--url", "https://h/in",
			"-H", "Authorization: Bearer eyJhbGciOiJSUzI1NiIsImtpZCI6ImsifQ.e30.AAAA"}, verify.ReasonKey},
	} {
		got := runCommand(c.args...)
		line := lineOf(t, got)
		why, _, _ := strings.Cut(fmt.Sprint(line["error"]), ": ")
		wantCode, want := cli.ExitFailed, string(c.reason)
		if c.reason == "" {
			wantCode, want = 0, "<nil>"
		}
		if got.Code != wantCode || why != want || line["verified"] != (c.reason == "") || got.Stderr != "" {
			t.Errorf("%s: got %+v, want exit code %d and %s", c.claim, got, wantCode, want)
		}
		if strings.Contains(got.Stdout, testSecret) || c.reason != "" && strings.Contains(got.Stdout, right) {
			t.Errorf("%s: shows the secret or the signature: %s", c.claim, got.Stdout)
		}
	}
}

func TestVerifyTriesAllSchemes(t *testing.T) {
	clitest.ClearEnvironment(t)
	const encoded = "whsec_MDAxMTIyMzM0NDU1NjY3Nzg4OTlhYWJiY2NkZGVlZmY="
	for _, c := range []struct {
		claim, scheme, reason string
		args                  []string
	}{
		{"the default", "gitlab", "<nil>", []string{"--provider", "gitlab", "--secret", encoded, "-H", "X-Gitlab-Token: " + encoded}},
		{"no scheme matches: the default", "gitlab", "missing_header", []string{"--provider", "gitlab", "--secret", encoded}},
		{"no scheme matches: the one with more passed steps", "gitlab-signing", "encoding", []string{"--provider", "gitlab", "--secret", encoded,
			"-H", "webhook-signature: v1,x", "-H", "webhook-id: a", "-H", "webhook-timestamp: 1"}},
		{"the version that the request names", "hubspot-v1", "mismatch", []string{"--provider", "hubspot", "--secret", "s",
			"-H", "X-HubSpot-Signature-Version: v1", "-H", "X-HubSpot-Signature: " + macOf("a", "b")}},
		{"no scheme for which the secret is not valid", "gitlab", "missing_header", []string{"--provider", "gitlab", "--secret", "!", "-H", "webhook-signature: v1,x"}},
		{"the scheme of --scheme", "gitlab", "missing_header", []string{"--provider", "gitlab", "--scheme", "gitlab", "--secret", encoded, "-H", "webhook-signature: v1,x"}},
	} {
		line := lineOf(t, runCommand(append([]string{"verify"}, c.args...)...))
		why, _, _ := strings.Cut(fmt.Sprint(line["error"]), ": ")
		if line["scheme"] != c.scheme || why != c.reason {
			t.Errorf("%s: got %v, want %s of %s", c.claim, line, c.reason, c.scheme)
		}
	}
}

func TestVerifyReadsFilesAndVariables(t *testing.T) {
	clitest.ClearEnvironment(t)
	signature := "X-Hub-Signature-256: sha256=" + macOf(testSecret, pushBody)
	t.Run("a body on standard input", func(t *testing.T) {
		onStdin(t, pushBody)
		if got := runCommand("verify", "--provider", "github", "--secret", testSecret, "-H", signature, "--body-file", "-"); got.Code != 0 {
			t.Errorf("got %+v, want verified", got)
		}
	})
	t.Run("a secret of the environment", func(t *testing.T) {
		t.Setenv("EVENTHOOK_SECRET", testSecret)
		file := clitest.WriteFile(t, "body", pushBody)
		if got := runCommand("verify", "--provider", "github", "-H", signature, "--body-file", file); got.Code != 0 {
			t.Errorf("got %+v, want verified", got)
		}
		if got := runCommand("verify", "--provider", "github", "--secret", "other", "-H", signature, "--body-file", file); got.Code != cli.ExitFailed {
			t.Errorf("with another secret as a flag: got %+v, want the flag to have precedence", got)
		}
		key, _, err := ed25519.GenerateKey(nil)
		if err != nil {
			t.Fatal(err)
		}
		keyFile := clitest.WriteFile(t, "key", hex.EncodeToString(key)+"\n")
		if got := runCommand("verify", "--provider", "discord", "--public-key", "@"+keyFile); got.Code != cli.ExitFailed {
			t.Errorf("for a provider without secrets: got %+v, want the variable ignored", got)
		}
		if got := runCommand("verify", "--provider", "google-pubsub", "--option", "email=a@b"); got.Code != cli.ExitFailed {
			t.Errorf("for a provider with tokens: got %+v, want the variable ignored", got)
		}
		if got := runCommand("verify", "--verifier", `{"type":"none"}`); got.Code != 0 {
			t.Errorf("for --verifier: got %+v, want the variable ignored", got)
		}
	})
	t.Run("two secrets", func(t *testing.T) {
		if got := verifyPush(t, "sha256="+macOf("another", pushBody), "--secret", "another"); got.Code != 0 {
			t.Errorf("got %+v, want verified with the second secret", got)
		}
	})
	t.Run("a verifier in a file", func(t *testing.T) {
		file := clitest.WriteFile(t, "v.json", `{"type":"hmac","header":"X-S","secrets":["`+testSecret+`"]}`)
		got := runCommand("verify", "--verifier", "@"+file, "-H", "X-S: "+macOf(testSecret, ""))
		if got.Code != 0 || lineOf(t, got)["scheme"] != "hmac" {
			t.Errorf("got %+v, want verified", got)
		}
	})
	t.Run("an option and a URL", func(t *testing.T) {
		got := runCommand("verify", "--provider", "azure-event-grid", "--secret", testSecret, "--url", "https://h/in?token="+testSecret)
		if got.Code != 0 || strings.Contains(got.Stdout, testSecret) {
			t.Errorf("got %+v, want verified", got)
		}
	})
}

func TestVerifyRefusesWrongUsage(t *testing.T) {
	clitest.ClearEnvironment(t)
	base := []string{"verify", "--provider", "github", "--secret", testSecret}
	for _, c := range []struct {
		claim string
		args  []string
		part  string // of stderr
	}{
		{"no flags", []string{"verify"}, "exactly one of --provider and --verifier"},
		{"both", append(base, "--verifier", "{}"), "exactly one of --provider and --verifier"},
		{"an argument", append(base, "github"), "github"},
		{"an unknown provider", []string{"verify", "--provider", "gitlob", "--secret", "s"}, `provider: "gitlob"`},
		{"an unknown scheme", append(base, "--scheme", "v9"), `scheme: "v9"`},
		{"no secret", []string{"verify", "--provider", "github"}, "  secrets: "},
		{"an option that is missing", []string{"verify", "--provider", "paypal"}, "  options.webhook_id: "},
		{"an unknown option", append(base, "--option", "a=b"), "  options.a: "},
		{"an option without value", append(base, "--option", "a"), "--option"},
		{"a malformed key", []string{"verify", "--provider", "discord", "--public-key", "x"}, "  public_keys[0]: "},
		{"a key in a missing file", []string{"verify", "--provider", "discord", "--public-key", "@nowhere"}, "nowhere"},
		{"a header without a colon", append(base, "-H", "X-A"), "--header"},
		{"a malformed header", append(base, "-H", "a b: c"), "  headers.a b: "},
		{"a malformed method", append(base, "--method", "A B"), "  method: "},
		{"a malformed URL", append(base, "--url", "here"), "  url: "},
		{"a malformed time", append(base, "--at", "noon"), "--at"},
		{"a tolerance that is not a number", append(base, "--tolerance", "x"), "tolerance"},
		{"a negative tolerance", []string{"verify", "--provider", "stripe", "--secret", "s", "--tolerance", "-1"}, "  tolerance_seconds: "},
		{"a missing body file", append(base, "--body-file", "nowhere"), "nowhere"},
		{"another format", append(base, "-o", "yaml"), "--output"},
		{"a verifier and a secret", []string{"verify", "--verifier", `{"type":"none"}`, "--secret", testSecret}, "--verifier"},
		{"a verifier that is not JSON", []string{"verify", "--verifier", testSecret}, "JSON object"},
		{"a verifier with an unknown field", []string{"verify", "--verifier", `{"type":"none","secret":"` + testSecret + `"}`}, `"secret"`},
		{"an invalid verifier", []string{"verify", "--verifier", `{"type":"hmac"}`}, "  verifier.header: "},
		{"a missing file of vectors", []string{"verify", "--vectors", "nowhere"}, "nowhere"},
		{"vectors and --provider", []string{"verify", "--vectors", "-", "--provider", "github"}, "--provider"},
		{"vectors without a file", []string{"verify", "--vectors", ""}, "--vectors"},
	} {
		got := runCommand(c.args...)
		if got.Code != cli.ExitUsage || got.Stdout != "" || !strings.Contains(got.Stderr, c.part) || strings.Contains(got.Stderr, testSecret) {
			t.Errorf("%s: got %+v, want exit code %d and %q on stderr, without the secret", c.claim, got, cli.ExitUsage, c.part)
		}
	}
}

// ownVectors returns vectors with expected, unexpected and unknown results.
func ownVectors() string {
	vector := func(name, secret, expect string) string {
		return fmt.Sprintf(`{"provider":"github","scheme":"github","name":%q,"headers":{"x-hub-signature-256":"sha256=%s"},"body":"b<>","secret":%q,"now":null,"source":"us"%s}`,
			name, macOf("s", "b<>"), secret, expect)
	}
	return "[" + strings.Join([]string{vector("right", "s", `,"expect":"valid"`), vector("wrong <b>", "t", `,"expect":"invalid"`), vector("no expectation", "s", ""),
		`{"provider":"gitlob","scheme":"x","name":"unknown","expect":"invalid"}`}, ",") + "]"
}

func TestVerifyVectors(t *testing.T) {
	clitest.ClearEnvironment(t)
	got := runCommand("verify", "--vectors", clitest.WriteFile(t, "v.json", ownVectors()), "-o", "json")
	lines := strings.Split(strings.TrimSuffix(got.Stdout, "\n"), "\n")
	want := []string{
		`{"provider":"github","scheme":"github","name":"right","verified":true,"error":null}`,
		`{"provider":"github","scheme":"github","name":"wrong <b>","verified":false,"error":"mismatch: no secret matched (of 1)"}`,
		`{"provider":"github","scheme":"github","name":"no expectation","verified":true,"error":null}`,
	}
	if got.Code != cli.ExitFailed || !strings.Contains(got.Stderr, "1 of 4") || len(lines) != 4 || !strings.HasPrefix(lines[3], `{"provider":"gitlob","scheme":"x","name":"unknown","verified":false,"error":"`) {
		t.Fatalf("got %+v, want four lines, the last for an unknown provider", got)
	}
	if diff := cmp.Diff(want, lines[:3]); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
	t.Run("on standard input, with other expected results", func(t *testing.T) {
		onStdin(t, strings.NewReplacer(`"valid"`, `"invalid"`, `"invalid"`, `"valid"`).Replace(ownVectors()))
		got := runCommand("verify", "--vectors", "-")
		if got.Code != cli.ExitFailed || strings.Count(got.Stdout, "\n") != 4 || !strings.Contains(got.Stderr, "3 of 4") {
			t.Errorf("got %+v, want all lines, exit code %d, and 3 of 4 counted", got, cli.ExitFailed)
		}
	})
	for claim, c := range map[string]struct{ text, says string }{
		"not JSON":                 {"[", "the vectors are not valid: want a JSON array of objects"},
		"text after the list":      {"[{}] x", "the vectors are not valid: want a JSON array of objects"},
		"not a list":               {"{}", "the vectors are not valid: want a JSON array of objects"},
		"a list of texts":          {`["a"]`, "the vectors are not valid: want a JSON array of objects"},
		"no vectors":               {"[]", "the file contains no vectors"},
		"an unknown expectation":   {`[{"expect":"maybe"}]`, `vector 0: expect "maybe", want valid or invalid`},
		"an unknown member":        {strings.Replace(ownVectors(), "expect", "expct", 1), `the vectors are not valid: there is no member "expct"`},
		"a body that is no text":   {`[{"body":{"a":1}}]`, "the vectors are not valid: body has a value of the wrong type"},
		"a header that is no text": {`[{"headers":{"X-A":1}}]`, "the vectors are not valid: headers has a value of the wrong type"},
	} {
		if got := runCommand("verify", "--vectors", clitest.WriteFile(t, "v.json", c.text)); got.Code != cli.ExitUsage || got.Stderr != "eventhook: "+c.says+"\n" {
			t.Errorf("%s: got %+v, want exit code %d and %q", claim, got, cli.ExitUsage, c.says)
		}
	}
}

// TestVerifySharedVectors verifies vectors that were collected from providers and
// that are not part of this repository.
func TestVerifySharedVectors(t *testing.T) {
	const file = "../../../../shared/vectors.json"
	raw, err := os.ReadFile(file)
	if os.IsNotExist(err) {
		t.Skipf("%s is absent", file)
	}
	var vectors []verify.Vector
	if err := json.Unmarshal(raw, &vectors); err != nil || len(vectors) < 400 {
		t.Fatalf("%d vectors, %v", len(vectors), err)
	}
	clitest.ClearEnvironment(t)
	got := runCommand("verify", "--vectors", file, "-o", "json")
	lines := strings.Split(strings.TrimSuffix(got.Stdout, "\n"), "\n")
	if got.Code != 0 || got.Stderr != "" || len(lines) != len(vectors) {
		t.Fatalf("exit code %d with %d lines and %q, want 0 with %d and no error", got.Code, len(lines), got.Stderr, len(vectors))
	}
	for i, v := range vectors {
		var a vectorResult
		if err := json.Unmarshal([]byte(lines[i]), &a); err != nil {
			t.Fatal(err)
		}
		if a.Provider != v.Provider || a.Name != v.Name || a.Verified != (v.Expect == expectValid) || a.Verified == (a.Error != nil) {
			t.Errorf("%s, %s: got %s, want %s", v.Provider, v.Name, lines[i], v.Expect)
		}
	}
}
