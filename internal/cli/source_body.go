package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/cli/input"
	"github.com/eventhook/eventhook/internal/cli/terminal"
)

// sourceFlags are the flags of what a source is told. The rest of it is for -f.
func (b *body) sourceFlags() *body {
	b.text("name", "name", "its name, for people; the slug by default")
	b.text("provider", "provider", "who sends, such as stripe: it says how to verify")
	b.text("scheme", "scheme", "one of the provider's schemes; its first by default")
	b.options()
	b.json("verifier", "verifier", "how to verify, instead of a provider, such as "+`{"type":"hmac","header":"X-Signature"}`)
	b.secrets()
	b.texts("idempotency-key-path", "idempotency_key_paths", "where the id is, such as header.x-request-id or body.id")
	b.yes("require-idempotency-key", "require_idempotency_key", "refuse what has no id")
	b.text("replay-protection", "replay_protection", "body: the same signed bytes count once; or off")
	b.texts("event-type-path", "event_type_paths", "where the event type is, such as body.type")
	b.texts("allow-from", "allowed_ip_ranges", "CIDR that may send, such as 192.0.2.0/24")
	b.number("max-body-bytes", "max_body_bytes", "the largest body that is taken")
	b.number("requests-per-second", "rate_limit.requests_per_second", "on each instance")
	b.number("requests-per-minute", "rate_limit.requests_per_minute", "on each instance")
	b.number("burst", "rate_limit.burst_size", "how many may come at once")
	b.yes("enabled", "is_enabled", "whether it receives (--enabled=false: it does not)")
	return b
}

// secrets go to the verifier that is spelled out, if one is.
func (b *body) secrets() {
	f := &input.Secrets{}
	f.AddTo(b.cmd.Flags())
	b.over = append(b.over, func(d document) error {
		if !f.Given() {
			return nil
		}
		texts, err := f.Read(b.cmd.InOrStdin())
		if err != nil {
			return err
		}
		place := "secrets"
		if v, spelledOut := d["verifier"].(map[string]any); spelledOut && v["type"] == "api_key" {
			place = "verifier.values"
		} else if spelledOut {
			place = "verifier.secrets"
		}
		d.set(place, texts)
		return nil
	})
}

// options are those of the provider.
func (b *body) options() {
	pairs := b.cmd.Flags().StringArray("option", nil, "name=value of an option of the provider; may be repeated")
	b.when(func(d document) error {
		for _, pair := range *pairs {
			name, value, ok := strings.Cut(pair, "=")
			if !ok || name == "" {
				return fmt.Errorf("--option %q, want name=value", terminal.Printable(name))
			}
			options, isObject := d["options"].(map[string]any)
			if !isObject {
				options = map[string]any{}
				d["options"] = options
			}
			options[name] = value // which may hold dots
		}
		return nil
	}, "option")
}

func newSourceCreate(r *remote) *cobra.Command {
	var b *body
	cmd := r.verb("create SLUG", "Make a source", cobra.MaximumNArgs(1), func(cmd *cobra.Command, s *session, args []string) error {
		raw, err := b.readNamed("slug", args)
		if err != nil {
			return err
		}
		x, err := s.CreateSourceFrom(cmd.Context(), s.tenant, raw, s.keep())
		if err := s.showSource(x, err); err != nil {
			return err
		}
		s.Say("\nGive this URL to the provider: %s", x.IngestURL)
		s.Say("Say what its events do:        eventhook route create NAME --source %s --type 'a.type' --task KIND", x.Slug)
		return nil
	})
	b = newBody(cmd).sourceFlags()
	cmd.Example = `  eventhook source create github --provider github --secret-env GITHUB_SECRET
  eventhook source create slack --provider slack --secret-file slack.secret
  pass show crm | eventhook source create crm --verifier '{"type":"hmac","header":"X-Signature"}' --secret-file -
  eventhook source create shop -f shop.yaml`
	return cmd
}

func newSourceUpdate(r *remote) *cobra.Command {
	var b *body
	cmd := r.verb("update SLUG", "Change what you name of a source", cobra.ExactArgs(1), func(cmd *cobra.Command, s *session, args []string) error {
		raw, err := b.readChange()
		if err != nil {
			return err
		}
		return s.showSource(s.UpdateSourceFrom(cmd.Context(), s.tenant, args[0], client.UpdateSourceParams{}, raw, s.keep()))
	})
	b = newBody(cmd).sourceFlags()
	return cmd
}
