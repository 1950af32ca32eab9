package cli

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/eventhook/eventhook/internal/cli/clitest"
)

func TestFileKeepsNumbersAsWritten(t *testing.T) {
	for claim, c := range map[string]struct{ name, text, want string }{
		"JSON with long numbers": {"a.json", `{"filter":{"body.n":9007199254740993,"body.f":1.10}}`, `{"filter":{"body.f":1.10,"body.n":9007199254740993}}`},
		"YAML as JSON":           {"a.yaml", "a: [1, yes]\nb: {c: null}\nn: 9007199254740993\n", `{"a":[1,"yes"],"b":{"c":null},"n":9007199254740993}`},
	} {
		b := newBody(&cobra.Command{})
		b.file = clitest.WriteFile(t, c.name, c.text)
		if got, err := b.read(nil); err != nil || string(got) != c.want {
			t.Errorf("%s: got %s, %v, want %s", claim, got, err, c.want)
		}
	}
}

func TestInvalidFileIsNotQuoted(t *testing.T) {
	const secret = "whsec_private"
	for claim, c := range map[string]struct{ text, want string }{
		"a text":                       {secret, "FILE does not contain an object"},
		"a list":                       {"- " + secret, "FILE does not contain an object"},
		"an empty file":                {"", "FILE does not contain an object"},
		"a parser error":               {"a: 1\n" + secret + ": b: c\n", "FILE: line 2: is not YAML: mapping values are not allowed in this context"},
		"a control character":          {"a: " + secret + "\x01", "FILE is not YAML: control characters are not allowed (value: 1)"},
		"an unknown anchor":            {"a: *" + secret, "FILE: line 1: refers to an unknown anchor; put a text that begins with * in quotes"},
		"a field that occurs twice":    {"a: " + secret + "\nb: {}\na: 1\n", `FILE: line 3: the field "a" occurs twice`},
		"a field of an object, twice":  {"a:\n  b: " + secret + "\n  b: 1\n", `FILE: line 3: the field "b" occurs twice`},
		"two documents":                {"a: " + secret + "\n---\nb: 1\n", "FILE contains more than one document"},
		"an invalid second document":   {"a: " + secret + "\n---\nb: c: d\n", "FILE: line 3: is not YAML: mapping values are not allowed in this context"},
		"a value that is not its tag":  {"a: !!int " + secret, "FILE contains a value that does not fit its tag, anchor or merge key"},
		"a merge of a text":            {"<<: " + secret, "FILE contains a value that does not fit its tag, anchor or merge key"},
		"a value that JSON lacks":      {"a: " + secret + "\nb: .nan\n", "FILE contains a value that JSON does not have, such as .nan, or a field whose name is not a text"},
		"a name that is not a text":    {"a: {1: " + secret + "}", "FILE contains a value that JSON does not have, such as .nan, or a field whose name is not a text"},
		"text after the JSON document": {`{"a": "` + secret + `"} {}`, "FILE: line 1: is not YAML: did not find expected <document start>"},
	} {
		b := newBody(&cobra.Command{})
		b.file = clitest.WriteFile(t, "a.yaml", c.text)
		got, err := b.read(nil)
		if err == nil || strings.ReplaceAll(err.Error(), b.file, "FILE") != c.want {
			t.Errorf("%s: got %s, %v, want %s", claim, got, err, c.want)
		}
	}
}

func TestEventGetWaitsUntilTheEventIsProcessed(t *testing.T) {
	clitest.ClearEnvironment(t)
	answers := []string{"pending", "processing", "delivered", "unexpected"}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"id":"1","origin":"source","status":"`+answers[0]+`"}`)
		answers = answers[1:]
	}))
	defer s.Close()
	got := runCommand("event", "get", "1", "--wait", "--tenant", "shop", "--server", s.URL, "--key", testAdminKey)
	if got.Code != 0 || !strings.Contains(got.Stdout, "delivered") || len(answers) != 1 {
		t.Errorf("got %+v and %q left, want one output, when the event was delivered", got, answers)
	}
}

func TestDeliveryGetFailsIfTheDeliveryEndsWithAnotherStatus(t *testing.T) {
	clitest.ClearEnvironment(t)
	for want, code := range map[string]int{"success": 1, "dead": 0} {
		answers := []string{"failed", "acquired", "dead", "unexpected"}
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"id":"`+someID+`","status":"`+answers[0]+`"}`)
			answers = answers[1:]
		}))
		got := runCommand("delivery", "get", someID, "--wait", want, "--tenant", "shop", "--server", s.URL, "--key", testAdminKey)
		s.Close()
		if got.Code != code || !strings.Contains(got.Stdout, "dead") || strings.Contains(got.Stderr, "the delivery is dead, not success") != (code == 1) || len(answers) != 1 {
			t.Errorf("--wait %s: got %+v and %q left, want the dead delivery and exit code %d", want, got, answers, code)
		}
	}
}

func TestDeliveryRetryOfTheLatest(t *testing.T) {
	requests := startFakeGateway(t, 200, `{"id":"`+someID+`","status":"pending","items":[{"id":"`+someID+`"}]}`)
	got := runCommand("delivery", "retry", "latest")
	want := []request{{"GET", inShop + "/deliveries?limit=1", nil}, {"POST", inShop + "/deliveries/" + someID + "/retry", nil}}
	if diff := cmp.Diff(want, *requests, cmp.AllowUnexported(request{})); diff != "" || got.Code != 0 {
		t.Errorf("got %+v with the requests (-want +got):\n%s", got, diff)
	}
	startFakeGateway(t, 200, `{"items":[]}`)
	if got := runCommand("delivery", "retry", "latest"); got.Code != ExitFailed || !strings.Contains(got.Stderr, "there are no deliveries yet") {
		t.Errorf("without a delivery: got %+v, want exit code %d and the reason", got, ExitFailed)
	}
}
