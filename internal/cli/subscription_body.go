package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/cli/input"
	"github.com/eventhook/eventhook/internal/cli/terminal"
)

// subscriptionFlags are the flags of what a subscription is told. The rest of it
// is for -f.
func (b *body) subscriptionFlags() *body {
	b.text("url", "url", "where its events are sent")
	b.texts("type", "event_types", "event type: exact, prefix.*, or *")
	b.json("filter", "filter", `conditions, such as {"body.amount":{"$gte":10}}`)
	b.authHeader()
	b.headers()
	b.texts("label", "target_labels", "label of the agents that send, such as env:prod; without any the gateway sends")
	b.json("retry", "retry", `when to try again, such as {"max_retries":3} or {"schedule_seconds":[30,600]}`)
	b.number("timeout", "timeout_seconds", "seconds for an attempt")
	b.number("disable-after", "disable_after_failures", "deliveries dead in a row that disable it; 0: never")
	b.number("max-in-flight", "max_in_flight", "how many each instance sends at once, at most")
	b.number("rate", "rate_per_second", "how many all instances send in a second; 0: any")
	b.texts("signature", "signatures", "v1, or v1a for ed25519")
	b.signingSecret()
	return b
}

// authHeader is what is sent as Authorization, from a variable if wanted: shells
// remember what they ran.
func (b *body) authHeader() {
	plain := b.cmd.Flags().String("auth-header", "", "what is sent as Authorization (your shell will remember it: prefer --auth-header-env)")
	name := b.cmd.Flags().String("auth-header-env", "", "environment variable that holds what is sent as Authorization")
	b.when(func(d document) error {
		text := *plain
		if *name != "" {
			if text = os.Getenv(*name); text == "" {
				return fmt.Errorf("--auth-header-env: the variable %s is not set", *name)
			}
		}
		d.set("auth_header", text)
		return nil
	}, "auth-header", "auth-header-env")
}

// headers are sent, too, beside those of a file.
func (b *body) headers() {
	list := b.cmd.Flags().StringArrayP("header", "H", nil, "'Name: value' that is sent, too; may be repeated")
	b.when(func(d document) error {
		headers, ok := d["headers"].(map[string]any)
		if !ok {
			headers = map[string]any{}
			d["headers"] = headers
		}
		for _, text := range *list {
			name, value, ok := strings.Cut(text, ":")
			if !ok || name == "" {
				return fmt.Errorf("--header %q, want 'Name: value'", terminal.Printable(name))
			}
			headers[name] = strings.TrimSpace(value)
		}
		return nil
	}, "header")
}

// signingSecret is the one secret that signs.
func (b *body) signingSecret() {
	f := &input.Secrets{}
	f.AddTo(b.cmd.Flags())
	b.over = append(b.over, func(d document) error {
		if !f.Given() {
			return nil
		}
		text, err := f.ReadOne(b.cmd.InOrStdin())
		d.set("signing_secret", text)
		return err
	})
}

func newSubscriptionCreate(r *remote) *cobra.Command {
	var b *body
	cmd := r.verb("create NAME", "Make a subscription", cobra.MaximumNArgs(1), func(cmd *cobra.Command, s *session, args []string) error {
		raw, err := b.readNamed("name", args)
		if err != nil {
			return err
		}
		x, err := s.CreateSubscriptionFrom(cmd.Context(), s.tenant, raw, s.keep())
		if err != nil {
			return err
		}
		return s.answer(func(w io.Writer) error { return s.showMade(w, x) })
	})
	b = newBody(cmd).subscriptionFlags()
	b.yes("validate", "validate", "make it only if a test event is answered with 2xx")
	cmd.Example = `  eventhook subscription create billing --url https://billing.example/hooks --type 'payment.*'
  eventhook subscription create large --url https://a.example/in --type '*' --filter '{"body.amount":{"$gte":1000}}'
  eventhook subscription create own --url https://a.example/in --type '*' --secret-env SIGNING_SECRET --auth-header-env TOKEN --validate
  eventhook subscription create inside --url http://10.1.2.3/in --type '*' --label env:prod
  eventhook subscription create shop -f subscription.yaml`
	return cmd
}

// showMade tells of a subscription that was made, with what to do next.
func (s *session) showMade(w io.Writer, x client.SubscriptionCreated) error {
	var read client.Subscription
	if err := json.Unmarshal(s.raw, &read); err != nil {
		return err
	}
	if err := printSubscription(w, read); err != nil {
		return err
	}
	s.Say("\nIts receiver verifies what comes with this secret, which is not shown again:\n  %s", x.SigningSecret)
	if slices.Contains(x.Signatures, "v1a") {
		s.Say("and v1a with its public key: eventhook subscription public-key %s", x.ID)
	}
	s.Say("How to: docs/receiving.md. Try it out: eventhook subscription test %s", x.ID)
	return nil
}

func newSubscriptionUpdate(r *remote) *cobra.Command {
	var b *body
	cmd := r.verb("update NAME", "Change what you name of a subscription", cobra.ExactArgs(1), func(cmd *cobra.Command, s *session, args []string) error {
		raw, err := b.readChange()
		if err != nil {
			return err
		}
		id, err := s.subscriptionID(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		x, err := s.UpdateSubscriptionFrom(cmd.Context(), s.tenant, id, client.UpdateSubscriptionParams{}, raw, s.keep())
		return s.showSubscription(x, withFlagsToRepeat(err))
	})
	b = newBody(cmd).subscriptionFlags()
	b.text("name", "name", "its name")
	cmd.Long = cmd.Short + `. A secret that is given takes the place of
all that it has, at once; rotate-secret leaves its receiver time.

With another scheme, host or port of --url, or another --label, give
--auth-header-env and each --header again: the gateway sends no stored secret to
a destination that it was not given for.`
	return cmd
}

// withFlagsToRepeat names the flags of what a new destination needs again.
func withFlagsToRepeat(err error) error {
	p, ok := errors.AsType[*client.Problem](err)
	if !ok {
		return err
	}
	var flags []string
	for _, f := range p.Errors {
		switch name, isHeader := strings.CutPrefix(f.Location, "body.headers."); {
		case !strings.Contains(f.Message, "must be given again"):
		case f.Location == "body.auth_header":
			flags = append(flags, "--auth-header-env VARIABLE")
		case isHeader:
			flags = append(flags, fmt.Sprintf("--header '%s: …'", terminal.Printable(name)))
		}
	}
	if len(flags) > 0 {
		p.Detail = "The gateway sends no stored secret to a new destination: add " + strings.Join(flags, " ") + ", or set them to null in a file with -f."
	}
	return err
}
