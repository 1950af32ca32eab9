package targets_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/consumers"
	"github.com/eventhook/eventhook/targets"
)

// textMembers returns the names of the members of settings that are texts.
func textMembers(settings any) (names []string) {
	for _, f := range reflect.VisibleFields(reflect.TypeOf(settings).Elem()) {
		if !f.Anonymous && f.Type.Kind() == reflect.String {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			names = append(names, name)
		}
	}
	return names
}

func TestTextsHaveNoControlCharacters(t *testing.T) {
	type parse = func(json.RawMessage, func(member, text string) string) (eventhook.Target, eventhook.Faults)
	check := func(of, typ string, settings any, parse parse) {
		for _, member := range textMembers(settings) {
			for _, text := range []string{"a\x00b", "a\x1bb", "a\x7fb", "a\u0085b", "a\u2028b", "a\rb", "a\nb", " ", "\n"} {
				raw, err := json.Marshal(map[string]string{"type": typ, member: text})
				if err != nil {
					t.Fatal(err)
				}
				_, faults := parse(raw, nil)
				at := slices.IndexFunc(faults, func(f eventhook.Fault) bool { return f.Location == member })
				isLines := strings.TrimSpace(text) != "" && strings.ContainsAny(text, "\r\n") &&
					slices.Contains([]string{"ca", "certificate", "private_key", "credentials"}, member)
				switch {
				case isLines && at >= 0 && strings.Contains(faults[at].Message, "control"):
					t.Errorf("%s %s: %q of %s has a fault, although it may have several lines", of, typ, text, member)
				case !isLines && at < 0:
					t.Errorf("%s %s: %q of %s has no fault", of, typ, text, member)
				case !isLines && !strings.Contains(faults[at].Message, "must not have control characters") &&
					!strings.Contains(faults[at].Message, "must not be white space only"):
					t.Errorf("%s %s: the fault of %q of %s is %q", of, typ, text, member, faults[at].Message)
				}
			}
		}
	}
	for _, typ := range targets.Types() {
		check("target", typ, targets.NewSettings(typ), targets.Parse)
	}
	for _, typ := range consumers.Types() {
		check("source", typ, consumers.NewSettings(typ), consumers.Parse)
	}
}

// The texts inside of auth, headers and target_labels have checks of their own.
func TestNestedTextsHaveNoNUL(t *testing.T) {
	for _, members := range []string{
		`"headers":{"X-A":"a\u0000b"}`, `"headers":{"X\u0000":"b"}`, `"target_labels":["a:\u0000"]`,
		`"auth":{"type":"bas\u0000ic","username":"u","password":"p"}`, `"auth":{"type":"basic","username":"u\u0000","password":"p"}`,
		`"auth":{"type":"basic","username":"u","password":"p\u0000"}`,
	} {
		if _, faults := targets.Parse([]byte(`{"type":"http","url":"https://a.example",`+members+`}`), nil); len(faults) == 0 {
			t.Errorf("%s has no fault", members)
		}
	}
	auth := eventhook.Auth{Type: "oauth2_client_credentials", TokenURL: "https://a.example", ClientID: "c", ClientSecret: "s"}
	for _, m := range auth.Members() {
		was := *m.Text
		*m.Text = "a\x00b"
		raw, err := json.Marshal(map[string]any{"type": "http", "url": "https://a.example", "auth": auth})
		if err != nil {
			t.Fatal(err)
		}
		if _, faults := targets.Parse(raw, nil); len(faults) == 0 {
			t.Errorf("auth.%s with NUL has no fault", m.Name)
		}
		*m.Text = was
	}
}
