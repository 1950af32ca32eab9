package cli

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

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

func TestEventGetWaitsUntilTheEventIsProcessed(t *testing.T) {
	clitest.ClearEnvironment(t)
	answers := []string{"pending", "processing", "delivered", "unexpected"}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"id":"1","status":"`+answers[0]+`"}`)
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
