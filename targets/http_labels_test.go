package targets_test

import (
	"errors"
	"net/url"
	"slices"
	"testing"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/targets"
)

func TestTheHostOfARequestIsCheckedUnlessAnAgentSendsIt(t *testing.T) {
	errBlocked := errors.New("the address is not allowed")
	deps := targets.Deps{CheckHost: func(u *url.URL) error {
		if u.Hostname() == "10.1.2.3" {
			return errBlocked
		}
		return nil
	}}
	const inside = `{"type":"http","url":"http://10.1.2.3/"`
	for _, c := range []struct {
		claim, text string
		want        error
	}{
		{"sent by the gateway", inside + `}`, errBlocked},
		{"sent by an agent", inside + `,"target_labels":["env:prod"]}`, nil},
		{"the gateway fetches the token", inside + `,"target_labels":["env:prod"],"auth":{"type":"oauth2","token_url":"http://10.1.2.3/token","client_id":"a","client_secret":"b"}}`,
			errBlocked},
	} {
		if _, err := targets.New(read(t, c.text), deps); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", c.claim, err, c.want)
		}
	}
}

func TestASecretIsSetAgainForOtherAgents(t *testing.T) {
	text := func(secret, labels string) string {
		return `{"type":"http","url":"https://a.example/","auth_header":"` + secret + `","target_labels":` + labels + `}`
	}
	stored := []eventhook.Target{read(t, text("Bearer t0k", `["env:prod","region:eu"]`))}
	for _, c := range []struct {
		claim, labels string
		want          []string
	}{
		{"the same labels", `["region:eu","env:prod"]`, nil},
		{"a label less", `["env:prod"]`, nil},
		{"no labels", `[]`, nil},
		{"a label more", `["env:prod","region:eu","a:b"]`, []string{"[0].auth_header"}},
		{"another label", `["env:test"]`, []string{"[0].auth_header"}},
	} {
		_, faults := targets.KeepSecrets([]eventhook.Target{read(t, text(eventhook.Redacted, c.labels))}, stored)
		var at []string
		for _, f := range faults {
			at = append(at, f.Location)
		}
		if !slices.Equal(at, c.want) {
			t.Errorf("%s: got the faults %v, want %v", c.claim, faults, c.want)
		}
	}
}
