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

// subscriptionFlags defines flags for the fields of a subscription. Fields without a
// flag can be set in a file with -f.
func (b *body) subscriptionFlags() *body {
	b.text("url", "url", "URL that receives the events")
	b.texts("type", "event_types", "event type: exact, prefix.*, or *")
	b.json("filter", "filter", `filter conditions, such as {"body.amount":{"$gte":10}}`)
	b.authHeader()
	b.json("auth", "auth", `authentication instead of --auth-header, such as {"type":"basic","username":"u","password":"p"} (the history of your shell will contain JSON: prefer @FILE)`)
	b.headers()
	b.texts("label", "target_labels", "label of the agents that deliver, such as env:prod; without labels the gateway delivers")
	b.json("retry", "retry", `retry policy, such as {"max_retries":3} or {"schedule_seconds":[30,600]}`)
	b.number("timeout", "timeout_seconds", "timeout of an attempt in seconds")
	b.number("disable-after", "disable_after_failures",
		"number of dead deliveries in a row that disables the subscription; 0: never; 10 by default")
	b.number("max-in-flight", "max_in_flight", "maximum number of concurrent deliveries per instance")
	b.number("rate", "rate_per_second", "maximum deliveries per second of all instances; 0: unlimited")
	b.texts("signature", "signatures", "signature version: v1 (HMAC) or v1a (ed25519)")
	b.texts("scope", "scope_filter", "scope of events to deliver: exact, prefix/*, or *")
	b.transform()
	b.text("format", "format", "body of deliveries: eventhook, cloudevents, slack, teams or pagerduty")
	b.text("header-prefix", "header_prefix", "beginning of the gateway's header names instead of X-Eventhook")
	b.text("ordered-by", "ordered_by", "path of the event whose value orders deliveries, such as data.customer_id")
	b.json("recovery", "recovery", `recovery after an outage, such as {"enabled":false} or {"max_age_hours":24}`)
	b.texts("from-tenant", "tenants", "with --operator, the slug of a tenant whose events are received; all tenants by default")
	b.signingSecret()
	return b
}

// authHeader defines the flags for the Authorization header. The flag that names a
// variable keeps the value out of the shell's history.
func (b *body) authHeader() {
	plain := b.cmd.Flags().String("auth-header", "", "value of the Authorization header (the history of your shell will contain it: prefer --auth-header-env)")
	name := b.cmd.Flags().String("auth-header-env", "", "environment variable with the value of the Authorization header")
	b.onFlag(func(d document) error {
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

// headers defines the flag for headers, which are added to those of the file.
func (b *body) headers() {
	list := b.cmd.Flags().StringArrayP("header", "H", nil, "additional header as 'Name: value'; may be repeated")
	b.onFlag(func(d document) error {
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

// signingSecret defines the flags for the signing secret.
func (b *body) signingSecret() {
	f := &input.Secrets{}
	f.AddTo(b.cmd.Flags())
	b.changes = append(b.changes, func(d document) error {
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
	cmd := r.verb("create NAME", "Create a subscription", cobra.MaximumNArgs(1), func(cmd *cobra.Command, s *session, args []string) error {
		raw, err := b.readNamed("name", args)
		if err != nil {
			return err
		}
		x, err := s.createSubscription(cmd.Context(), raw)
		if err != nil {
			return err
		}
		return s.answer(func(w io.Writer) error { return s.showCreated(w, x, raw) })
	})
	b = newBody(cmd).subscriptionFlags()
	b.boolean("validate", "validate", "create it only if the receiver answers a test event with 2xx")
	cmd.Example = `  eventhook subscription create billing --url https://billing.example/hooks --type 'payment.*'
  eventhook subscription create large --url https://a.example/in --type '*' --filter '{"body.amount":{"$gte":1000}}'
  eventhook subscription create own --url https://a.example/in --type '*' --secret-env SIGNING_SECRET --auth-header-env TOKEN --validate
  eventhook subscription create inside --url http://10.1.2.3/in --type '*' --label env:prod
  eventhook subscription create shop -f subscription.yaml
  eventhook subscription create ops --operator --url https://ops.example/hooks --type tenant.closed`
	return cmd
}

// showCreated prints a new subscription and the next steps. It prints the secret unless
// the request contained it.
func (s *session) showCreated(w io.Writer, x client.SubscriptionCreated, request json.RawMessage) error {
	var sent struct {
		SigningSecret string `json:"signing_secret"`
	}
	_ = json.Unmarshal(request, &sent) // the gateway has accepted it
	var read client.Subscription
	if err := json.Unmarshal(s.raw, &read); err != nil {
		return err
	}
	if err := printSubscription(w, read); err != nil {
		return err
	}
	if sent.SigningSecret != "" {
		s.Say("\nThe receiver verifies events with the given secret.")
	} else {
		s.Say("\nThe receiver verifies events with this secret, which is shown only once:\n  %s", x.SigningSecret)
	}
	if slices.Contains(x.Signatures, "v1a") {
		s.Say("It verifies v1a signatures with the public key: %s", s.withOperator("eventhook subscription public-key "+x.ID))
	}
	s.Say("See docs/receiving.md. To test: %s", s.withOperator("eventhook subscription test "+x.ID))
	return nil
}

func newSubscriptionUpdate(r *remote) *cobra.Command {
	var b *body
	cmd := r.verb("update NAME", "Update the given fields of a subscription", cobra.ExactArgs(1), func(cmd *cobra.Command, s *session, args []string) error {
		raw, err := b.readChange()
		if err != nil {
			return err
		}
		id, err := s.subscriptionID(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		x, err := s.updateSubscription(cmd.Context(), id, raw)
		return s.showSubscription(x, withFlagsToRepeat(err))
	})
	b = newBody(cmd).subscriptionFlags()
	b.text("name", "name", "name of the subscription")
	cmd.Long = cmd.Short + `. A given secret replaces all
secrets of the subscription at once; rotate-secret has a grace period.

If --url changes the scheme, host or port, or --label adds a label, repeat
--auth-header-env, --auth and each --header: the gateway does not send stored secrets to
a new destination.`
	return cmd
}

// withFlagsToRepeat replaces the detail of a refusal with the flags that must be given
// again for a new destination.
func withFlagsToRepeat(err error) error {
	p, ok := errors.AsType[*client.Problem](err)
	if !ok {
		return err
	}
	var flags []string
	for _, f := range p.Errors {
		switch name, isHeader := strings.CutPrefix(f.Location, "body.headers."); {
		case !strings.Contains(f.Message, "must be given again"):
		case f.Location == "body.auth", strings.HasPrefix(f.Location, "body.auth."):
			flags = append(flags, "--auth @FILE")
		case f.Location == "body.auth_header":
			flags = append(flags, "--auth-header-env VARIABLE")
		case isHeader:
			flags = append(flags, fmt.Sprintf("--header '%s: …'", terminal.Printable(name)))
		}
	}
	if flags = slices.Compact(flags); len(flags) > 0 {
		p.Detail = "The gateway does not send stored secrets to a new destination: add " + strings.Join(flags, " ") + ", or set them to null in a file with -f."
	}
	return err
}
