package receive

import (
	"bytes"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/eventhook/eventhook/internal/cli"
	"github.com/eventhook/eventhook/internal/cli/clitest"
)

// The secrets of these tests.
const (
	newSigningSecret = "whsec_bmV3LXNlY3JldC1uZXctc2VjcmV0LW5ldw=="
	oldSigningSecret = "whsec_b2xkLXNlY3JldC1vbGQtc2VjcmV0LW9sZA=="
	plainSecret      = "a text of one's own"
)

var receiverKey = ed25519.NewKeyFromSeed([]byte("a seed of thirty-two bytes, yes!"))

// posted is a request as the gateway sends it. The tests sign it themselves, as
// docs/receiving.md describes, without code of the gateway.
type posted struct {
	id, body  string
	at        time.Time
	secrets   []string // that sign, the current one first
	signature string   // replaces the signatures of secrets
	unsigned  bool
}

func (p posted) request(t *testing.T, url string) *http.Request {
	t.Helper()
	if p.at.IsZero() {
		p.at = time.Now()
	}
	r, err := http.NewRequest(http.MethodPost, url, strings.NewReader(p.body))
	if err != nil {
		t.Fatal(err)
	}
	stamp := strconv.FormatInt(p.at.Unix(), 10)
	content := p.id + "." + stamp + "." + p.body
	var signatures []string
	for _, s := range p.secrets {
		signatures = append(signatures, "v1,"+base64.StdEncoding.EncodeToString(hmacOf(decodeSecret(t, s), content)))
	}
	signatures = append(signatures, "v1a,"+base64.StdEncoding.EncodeToString(ed25519.Sign(receiverKey, []byte(content))))
	if p.signature != "" {
		signatures = []string{p.signature}
	}
	for name, value := range map[string]string{"Content-Type": "application/json", "webhook-id": p.id, "webhook-timestamp": stamp,
		"X-Eventhook-Event-Id": p.id, "X-Eventhook-Event-Type": "payment.made", "X-Eventhook-Delivery-Id": "delivery-1", "X-Eventhook-Attempt": "1"} {
		r.Header.Set(name, value)
	}
	if !p.unsigned {
		r.Header.Set("webhook-signature", strings.Join(signatures, " "))
		if len(p.secrets) > 0 {
			r.Header.Set("X-Eventhook-Signature", "sha256="+hex.EncodeToString(hmacOf([]byte(p.secrets[0]), p.body)))
		}
	}
	return r
}

func hmacOf(key []byte, text string) []byte {
	m := hmac.New(sha256.New, key)
	m.Write([]byte(text))
	return m.Sum(nil)
}

// decodeSecret returns the HMAC key of a secret.
func decodeSecret(t *testing.T, secret string) []byte {
	t.Helper()
	encoded, isStandard := strings.CutPrefix(secret, "whsec_")
	if !isStandard {
		return []byte(secret)
	}
	key, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// runningReceiver is a command receive that runs in this process.
type runningReceiver struct {
	t              *testing.T
	url            string
	stdout, stderr *clitest.Buffer
	code           chan int
}

var receiverURL = regexp.MustCompile(`Receiving at (http://[^;]+);`)

// startReceiver starts a receiver that exits after count requests.
func startReceiver(t *testing.T, count int, args ...string) *runningReceiver {
	t.Helper()
	r := &runningReceiver{t: t, stdout: &clitest.Buffer{}, stderr: &clitest.Buffer{}, code: make(chan int, 1)}
	go func() {
		r.code <- run(append([]string{"receive", "--port", "0", "--count", strconv.Itoa(count)}, args...), r.stdout, r.stderr)
	}()
	clitest.Eventually(t, "the receiver prints its URL", func() bool {
		m := receiverURL.FindStringSubmatch(r.stdout.String() + r.stderr.String())
		if m != nil {
			r.url = m[1]
		}
		return m != nil
	})
	return r
}

// post sends an event and returns the status of the answer.
func (r *runningReceiver) post(p posted) int {
	r.t.Helper()
	return r.do(p.request(r.t, r.url))
}

func (r *runningReceiver) do(req *http.Request) int {
	r.t.Helper()
	resp, err := testClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	return resp.StatusCode
}

// wait waits for the end of the command and returns its output.
func (r *runningReceiver) wait() (stdout, stderr string) {
	r.t.Helper()
	if code := <-r.code; code != 0 {
		r.t.Errorf("the receiver ended with exit code %d: %s", code, r.stderr)
	}
	return r.stdout.String(), r.stderr.String()
}

func TestReceiveVerifiesAndPrints(t *testing.T) {
	clitest.ClearEnvironment(t)
	t.Setenv("RECEIVER_SECRET", newSigningSecret)
	publicKey := "whpk_" + base64.StdEncoding.EncodeToString(receiverKey.Public().(ed25519.PublicKey))
	good := posted{id: "one", body: "{ \"event_id\":\"one\",\n\t\"data\": {\"amount\": 12.50,\"list\":[ ],\"text\":\"ü\"} }", secrets: []string{newSigningSecret}}
	with := func(change func(*posted)) posted {
		p := good
		change(&p)
		return p
	}
	both := []string{"--secret", newSigningSecret, "--secret", oldSigningSecret}
	for _, c := range []struct {
		claim  string
		args   []string
		event  posted
		status int
		prints []string
	}{
		{"a signed event", []string{"--secret", newSigningSecret}, good, 200,
			[]string{"payment.made  verified\n", "event      one\n", "delivery   delivery-1\n", "attempt    1\n", "answered   200 OK\n", `"amount": 12.50`, `"list": []`, `"text": "ü"`, "1 received: 1 events, 0 duplicates, 0 not verified."}},
		{"rotation: both secrets sign, the old one is configured", []string{"--secret", oldSigningSecret}, with(func(p *posted) { p.secrets = []string{newSigningSecret, oldSigningSecret} }), 200,
			[]string{"verified\n", "X-Eventhook-Signature was computed with another secret"}},
		{"rotation: the old secret signs, both are configured", both, with(func(p *posted) { p.secrets = []string{oldSigningSecret} }), 200, []string{"verified by secret 2\n"}},
		{"rotation: the new secret signs, both are configured", both, good, 200, []string{"verified by secret 1\n"}},
		{"a secret of plain text", []string{"--secret", plainSecret}, with(func(p *posted) { p.secrets = []string{plainSecret} }), 200, []string{"verified\n"}},
		{"a public key", []string{"--public-key", publicKey}, with(func(p *posted) { p.secrets = nil }), 200, []string{"verified by public key\n"}},
		{"another secret", []string{"--secret", oldSigningSecret}, good, 401, []string{"not verified: mismatch: ", "answered   401 Unauthorized", "1 received: 0 events, 0 duplicates, 1 not verified."}},
		{"another public key", []string{"--public-key", publicKey}, with(func(p *posted) { p.signature = "v1a," + base64.StdEncoding.EncodeToString(make([]byte, 64)) }), 401, []string{"not verified: mismatch: "}},
		{"no signature", []string{"--secret", newSigningSecret}, with(func(p *posted) { p.unsigned = true }), 401, []string{"not verified: missing_header: "}},
		{"a replayed request", []string{"--secret", newSigningSecret}, with(func(p *posted) { p.at = time.Now().Add(-time.Hour) }), 401, []string{"not verified: timestamp: "}},
		{"an old request without tolerance", []string{"--secret", newSigningSecret, "--tolerance", "0"}, with(func(p *posted) { p.at = time.Now().Add(-time.Hour) }), 200, []string{"verified\n"}},
		{"a secret in a variable", []string{"--secret-env", "RECEIVER_SECRET"}, good, 200, []string{" --secret-env RECEIVER_SECRET\n", "verified\n"}},
		{"no secret and no key", nil, with(func(p *posted) { p.unsigned = true }), 200, []string{"Requests are not verified", "not verified: no secret and no public key is configured", "1 received: 1 events"}},
		{"another status", []string{"--secret", newSigningSecret, "--status", "410", "--delay", "1ms"}, good, 410, []string{"verified\n", "answered   410 Gone"}},
		{"no body", []string{"--secret", newSigningSecret}, with(func(p *posted) { p.body = "" }), 200, []string{"(no body)"}},
		{"control characters", []string{"--secret", newSigningSecret}, with(func(p *posted) { p.body = "\x1b[2Jgone\xff" }), 200, []string{" [2Jgone\uFFFD\n"}},
	} {
		t.Run(c.claim, func(t *testing.T) {
			r := startReceiver(t, 1, c.args...)
			if got := r.post(c.event); got != c.status {
				t.Errorf("answered %d, want %d", got, c.status)
			}
			stdout, stderr := r.wait()
			clitest.WantInOrder(t, stdout, append([]string{"Receiving at " + r.url, "eventhook subscription create receiver --url " + r.url + " --type '*'"}, c.prints...)...)
			if all := stdout + stderr; strings.Contains(all, newSigningSecret) || strings.Contains(all, oldSigningSecret) || strings.Contains(all, "\x1b") {
				t.Errorf("printed %q, want neither a secret nor control characters", all)
			}
		})
	}
}

// The signature covers the body, the id and the time.
func TestReceiveRefusesChangedRequests(t *testing.T) {
	clitest.ClearEnvironment(t)
	changes := map[string]func(*http.Request){
		"the body": func(r *http.Request) { r.Body = http.NoBody; r.ContentLength = 0 },
		"the id":   func(r *http.Request) { r.Header.Set("webhook-id", "two") },
		"the time": func(r *http.Request) { r.Header.Set("webhook-timestamp", strconv.FormatInt(time.Now().Unix()-5, 10)) },
	}
	r := startReceiver(t, len(changes)+1, "--secret", newSigningSecret)
	good := posted{id: "one", body: "{}", secrets: []string{newSigningSecret}}
	for what, change := range changes {
		req := good.request(t, r.url)
		change(req)
		if got := r.do(req); got != 401 {
			t.Errorf("with %s changed: answered %d, want 401", what, got)
		}
	}
	if got := r.post(good); got != 200 {
		t.Errorf("unchanged: answered %d, want 200", got)
	}
	if stdout, _ := r.wait(); !strings.HasSuffix(stdout, "4 received: 1 events, 0 duplicates, 3 not verified.\n") {
		t.Errorf("printed %q, want one event, and refused requests not counted as events", stdout)
	}
}

func TestReceiveMarksDuplicates(t *testing.T) {
	clitest.ClearEnvironment(t)
	r := startReceiver(t, 5, "--secret", newSigningSecret, "--fail-every", "2", "-o", "json")
	for i, c := range []struct {
		id     string
		signed string
		status int
	}{{"one", newSigningSecret, 200}, {"one", oldSigningSecret, 401}, {"two", newSigningSecret, 500}, {"two", newSigningSecret, 200}, {"one", newSigningSecret, 500}} {
		if got := r.post(posted{id: c.id, body: `{"event_id":"` + c.id + `"}`, secrets: []string{c.signed}}); got != c.status {
			t.Errorf("request %d: answered %d, want %d", i+1, got, c.status)
		}
	}
	stdout, stderr := r.wait()
	if !strings.Contains(stderr, "5 received: 2 events, 2 duplicates, 1 not verified.") {
		t.Errorf("printed %q, want the numbers of requests", stderr)
	}
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	if len(lines) != 5 {
		t.Fatalf("got %d lines, want one for each request:\n%s", len(lines), stdout)
	}
	for i, want := range []string{"one 1 true 200", "one 0 false 401", "two 1 true 500", "two 2 true 200", "one 2 true 500"} {
		var got struct {
			WebhookID string `json:"webhook_id"`
			Times     int
			Verified  bool
			Answered  int
			Error     *string
			Body      struct {
				EventID string `json:"event_id"`
			}
		}
		if err := json.Unmarshal([]byte(lines[i]), &got); err != nil {
			t.Fatalf("line %d: %v: %s", i+1, err, lines[i])
		}
		if text := fmt.Sprint(got.WebhookID, " ", got.Times, " ", got.Verified, " ", got.Answered); text != want || got.Body.EventID != got.WebhookID || (got.Error == nil) != got.Verified {
			t.Errorf("line %d: got %s (%s), want %s", i+1, text, lines[i], want)
		}
	}
}

func TestReceiveLimitsBodies(t *testing.T) {
	clitest.ClearEnvironment(t)
	for _, c := range []struct {
		claim  string
		body   string
		status int
		prints string
	}{
		{"the maximum size", `"` + strings.Repeat("a", maxBody-2) + `"`, 200, "in all)"},
		{"one byte more", strings.Repeat("a", maxBody+1), 413, "is answered 413"},
		{"deeply nested JSON", strings.Repeat("[", 9000) + "1" + strings.Repeat(",1", 1<<20) + strings.Repeat("]", 9000), 200, "(2115153 bytes in all)"},
		{"long text", strings.Repeat("ü", maxPrinted), 200, fmt.Sprintf("(%d bytes in all)", 2*maxPrinted)},
	} {
		t.Run(c.claim, func(t *testing.T) {
			r := startReceiver(t, 2, "--secret", newSigningSecret)
			if got := r.post(posted{id: "one", body: c.body, secrets: []string{newSigningSecret}}); got != c.status {
				t.Errorf("answered %d, want %d", got, c.status)
			}
			for range 2 { // a body that is too large is not counted
				r.post(posted{id: "two", body: "{}", secrets: []string{newSigningSecret}})
				if c.status == 200 {
					break
				}
			}
			const frame = 2 << 10
			stdout, _ := r.wait()
			if !strings.Contains(stdout, c.prints) || len(stdout) > 2*maxPrinted+frame {
				t.Errorf("printed %d bytes that begin with %.500q, want %q, and not the whole body", len(stdout), stdout, c.prints)
			}
		})
	}
}

func TestReceiveRefusesOtherMethodsAndPaths(t *testing.T) {
	clitest.ClearEnvironment(t)
	r := startReceiver(t, 1, "--path", "/hooks")
	get, err := http.NewRequest(http.MethodGet, r.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := r.do(get); got != 405 {
		t.Errorf("GET is answered %d, want 405", got)
	}
	if got := r.do(posted{id: "one"}.request(t, strings.TrimSuffix(r.url, "/hooks")+"/other")); got != 404 {
		t.Errorf("another path is answered %d, want 404", got)
	}
	if got := r.post(posted{id: "one"}); got != 200 {
		t.Errorf("its own path is answered %d, want 200", got)
	}
	stdout, _ := r.wait()
	clitest.WantInOrder(t, stdout, "/hooks;", "(GET /hooks is answered 405: ", "(POST /other is answered 404: ", "1 received: 1 events")
}

// At SIGTERM the receiver answers waiting requests without their delay and exits
// with 0.
func TestReceiveStopsOnSIGTERM(t *testing.T) {
	cmd := exec.Command(os.Args[0], "receive", "--port", "0", "--delay", "1h")
	var out clitest.Buffer
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), "EVENTHOOK_TEST_AS_MAIN=1"), &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	clitest.Eventually(t, "the receiver prints its URL", func() bool { return receiverURL.MatchString(out.String()) })
	answered := make(chan string, 1)
	request := posted{id: "one", body: "{}"}.request(t, receiverURL.FindStringSubmatch(out.String())[1])
	go func() {
		resp, err := testClient.Do(request)
		if err == nil {
			err = resp.Body.Close()
			answered <- resp.Status
		}
		answered <- fmt.Sprint(err)
	}()
	clitest.Eventually(t, "it has printed the event", func() bool { return strings.Contains(out.String(), "payment.made") })
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the command ended with %v, want exit code 0", err)
	}
	if got := <-answered; got != "200 OK" {
		t.Errorf("the waiting request was answered %s, want 200 OK", got)
	}
	if !strings.HasSuffix(out.String(), "1 received: 1 events, 0 duplicates, 0 not verified.\n") {
		t.Errorf("printed %q, want the numbers of requests at the end", out.String())
	}
}

func TestReceiveRefusesWrongUsage(t *testing.T) {
	clitest.ClearEnvironment(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port := strconv.Itoa(taken.Addr().(*net.TCPAddr).Port)
	const broken = "whsec_this-is-no-base64"
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"--port", port}, cli.ExitFailed, "127.0.0.1:" + port + " is in use by another program"},
		{[]string{"--port", "65536"}, cli.ExitUsage, "--port 65536"},
		{[]string{"--listen", "127.0.0.1:80"}, cli.ExitUsage, "--listen"},
		{[]string{"--listen", "192.0.2.1", "--port", "0"}, cli.ExitUsage, "is not an address of this host"},
		{[]string{"--status", "99"}, cli.ExitUsage, "--status 99"},
		{[]string{"--delay", "-1s"}, cli.ExitUsage, "--delay"},
		{[]string{"--fail-every", "-1"}, cli.ExitUsage, "--fail-every"},
		{[]string{"--tolerance", "-1"}, cli.ExitUsage, "--tolerance"},
		{[]string{"--count", "-1"}, cli.ExitUsage, "--count"},
		{[]string{"--path", "hooks"}, cli.ExitUsage, "--path"},
		{[]string{"--secret", broken}, cli.ExitUsage, "the secret is not valid"},
		{[]string{"--secret", newSigningSecret, "--secret", broken}, cli.ExitUsage, "the secret 2 is not valid"},
		{[]string{"--public-key", "whpk_AAAA"}, cli.ExitUsage, "the public key is not an ed25519 key"},
		{[]string{"--public-key", "@nowhere"}, cli.ExitUsage, "nowhere"},
		{[]string{"--secret-env", "NOT_SET"}, cli.ExitUsage, "NOT_SET"},
		{[]string{"-o", "xml"}, cli.ExitUsage, "--output"},
		{[]string{"here"}, cli.ExitUsage, "here"},
	} {
		got := runCommand(append([]string{"receive"}, c.args...)...)
		if got.Code != c.code || !strings.Contains(got.Stderr, c.says) || strings.Contains(got.Stderr, broken) || got.Stdout != "" {
			t.Errorf("%v: got %+v, want exit code %d, %q on stderr, no secret, and no output on stdout", c.args, got, c.code, c.says)
		}
	}
}

func TestIndentEqualsJSONIndent(t *testing.T) {
	for _, raw := range []string{`{}`, `[]`, `{ "a" : [ 1 , 2.50, { } , [ ], "x\"]}, :\\" ], "b":{"c":null}}`, `"{\\"`, ` 1e5 `, "[[[{\"a\":[]}]]]"} {
		var want bytes.Buffer
		if err := json.Indent(&want, bytes.TrimSpace([]byte(raw)), "", "  "); err != nil {
			t.Fatal(err)
		}
		got, whole := indent([]byte(raw), 1000)
		if string(got) != want.String() || !whole {
			t.Errorf("indent %s: got\n%s\nwhole %v, want\n%s", raw, got, whole, want.String())
		}
		for most := range want.Len() {
			if cut, whole := indent([]byte(raw), most); whole || string(cut) != want.String()[:most] {
				t.Errorf("indent %s to %d bytes: got %q, whole %v, want its beginning", raw, most, cut, whole)
			}
		}
	}
}
