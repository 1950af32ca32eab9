package eventhook_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/eventhook/eventhook"
)

const hidden = "hunter2-très-secret"

type exposed struct{ Token eventhook.Secret }

type buried struct {
	name  string
	token eventhook.Secret
	inner struct{ list []eventhook.Secret }
	byKey map[string]eventhook.Secret
	at    *eventhook.Secret
}

func newBuried() buried {
	s := eventhook.NewSecret(hidden)
	b := buried{name: "crm", token: s, byKey: map[string]eventhook.Secret{"k": s}, at: &s}
	b.inner.list = []eventhook.Secret{s}
	return b
}

func TestSecretIsNeverShown(t *testing.T) {
	s := eventhook.NewSecret(hidden)
	b := newBuried()
	values := map[string]any{
		"alone": s, "behind a pointer": &s, "in a list": []eventhook.Secret{s}, "in a map": map[string]any{"k": s},
		"as a map's key": map[eventhook.Secret]int{s: 1}, "in a field": exposed{s}, "in a field behind a pointer": &exposed{s},
		"in unexported fields": b, "in unexported fields behind a pointer": &b,
		"in a source": eventhook.Source{Slug: "crm", Verifier: s}, "in an error": fmt.Errorf("source %v", s),
	}
	for where, v := range values {
		for how, show := range outputs() {
			t.Run(where+" "+how, func(t *testing.T) {
				got := show(v)
				if strings.Contains(got, hidden) || strings.Contains(got, "hunter2") {
					t.Errorf("got %s, want no trace of %q", got, hidden)
				}
			})
		}
	}
}

// outputs returns functions that print or marshal a value, by a description of the
// format.
func outputs() map[string]func(any) string {
	all := map[string]func(any) string{
		"as JSON": func(v any) string { b, err := json.Marshal(v); return fmt.Sprint(string(b), err) },
		"by slog text": func(v any) string {
			var b bytes.Buffer
			slog.New(slog.NewTextHandler(&b, nil)).With("bound", v).Info("x", "v", v, slog.Group("g", "v", v))
			return b.String()
		},
		"by slog JSON": func(v any) string {
			var b bytes.Buffer
			slog.New(slog.NewJSONHandler(&b, nil)).With("bound", v).Info("x", "v", v, slog.Group("g", "v", v))
			return b.String()
		},
		"in a wrapped error": func(v any) string { return fmt.Errorf("open: %v", v).Error() },
		"by Sprint":          func(v any) string { return fmt.Sprint(v) },
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%c", "%10.3s", "%p"} {
		all["with "+verb] = func(v any) string { return fmt.Sprintf(verb, v) }
	}
	return all
}

func TestSecretPrintsRedacted(t *testing.T) {
	for how, show := range outputs() {
		if how == "with %p" {
			continue
		}
		for _, v := range []any{eventhook.NewSecret(hidden), exposed{eventhook.NewSecret(hidden)}} {
			if got := show(v); !strings.Contains(got, "[redacted]") {
				t.Errorf("%T %s: got %s, want [redacted] in it", v, how, got)
			}
		}
	}
}

func TestRevealReturnsTheText(t *testing.T) {
	for _, c := range []struct {
		claim  string
		secret eventhook.Secret
		want   string
		zero   bool
	}{
		{"a text", eventhook.NewSecret(hidden), hidden, false},
		{"an empty text", eventhook.NewSecret(""), "", true},
		{"the zero secret", eventhook.Secret{}, "", true},
	} {
		t.Run(c.claim, func(t *testing.T) {
			if got, zero := c.secret.Reveal(), c.secret.IsZero(); got != c.want || zero != c.zero {
				t.Errorf("got %q, IsZero %t; want %q, %t", got, zero, c.want, c.zero)
			}
		})
	}
}

func TestSecretEqualComparesTexts(t *testing.T) {
	var zero eventhook.Secret
	if !zero.Equal(eventhook.NewSecret("")) || !eventhook.NewSecret("a").Equal(eventhook.NewSecret("a")) || eventhook.NewSecret("a").Equal(eventhook.NewSecret("b")) {
		t.Error("want secrets with the same text to be equal, and different texts not")
	}
}
