package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/cli/input"
	"github.com/eventhook/eventhook/internal/cli/terminal"
)

// sourceFlags defines flags for the fields of a source. Use -f for the other fields.
func (b *body) sourceFlags() *body {
	b.text("name", "name", "display name; the slug by default")
	b.text("description", "description", "free text for users")
	b.text("provider", "provider", "provider of the webhooks, such as stripe")
	b.text("scheme", "scheme", "signature scheme of the provider; the first by default")
	b.options()
	b.json("verifier", "verifier", "verifier, instead of a provider, such as "+`{"type":"hmac","header":"X-Signature"}`)
	b.secrets()
	b.publicKeys()
	b.json("consume", "consume", "broker whose messages the source consumes, instead of webhooks, such as "+`{"type":"kafka","brokers":"...","topic":"...","group":"..."}`)
	b.texts("idempotency-key-path", "idempotency_key_paths", "path of the id of a webhook, such as header.x-request-id or body.id")
	b.boolean("require-idempotency-key", "require_idempotency_key", "refuse webhooks without an id")
	b.text("replay-protection", "replay_protection", "body: accept the same signed body only once; or off")
	b.texts("event-type-path", "event_type_paths", "path of the event type, such as body.type")
	b.texts("allow-from", "allowed_ip_ranges", "allowed network of senders as CIDR, such as 192.0.2.0/24")
	b.number("max-body-bytes", "max_body_bytes", "maximum size of a body in bytes; 1048576 by default")
	b.number("requests-per-second", "rate_limit.requests_per_second", "maximum requests per second over all instances; 100 by default")
	b.number("requests-per-minute", "rate_limit.requests_per_minute", "maximum requests per minute over all instances; 1000 by default")
	b.number("burst", "rate_limit.burst_size", "maximum requests at once over all instances; 50 by default")
	b.boolean("enabled", "is_enabled", "whether the source is enabled; --enabled=false disables it")
	return b
}

// secrets defines the flags for secrets. They are stored in the verifier if the
// document has one.
func (b *body) secrets() {
	f := &input.Secrets{}
	f.AddTo(b.cmd.Flags())
	b.changes = append(b.changes, func(d document) error {
		if !f.Given() {
			return nil
		}
		texts, err := f.Read(b.cmd.InOrStdin())
		if err != nil {
			return err
		}
		path := "secrets"
		if v, hasVerifier := d["verifier"].(map[string]any); hasVerifier && v["type"] == "api_key" {
			path = "verifier.values"
		} else if hasVerifier {
			path = "verifier.secrets"
		}
		d.set(path, texts)
		return nil
	})
}

// publicKeys defines the flag for public keys. They are stored in the verifier if the
// document has one.
func (b *body) publicKeys() {
	texts := b.cmd.Flags().StringArray("public-key", nil, "public key of the sender, or @FILE; may be repeated")
	b.onFlag(func(d document) error {
		var keys []string
		for _, text := range *texts {
			key, err := input.TextOrFile(text)
			if err != nil {
				return fmt.Errorf("--public-key: %w", err)
			}
			keys = append(keys, key)
		}
		path := "public_keys"
		if _, hasVerifier := d["verifier"].(map[string]any); hasVerifier {
			path = "verifier.public_keys"
		}
		d.set(path, keys)
		return nil
	}, "public-key")
}

// options defines the flag for options of the provider.
func (b *body) options() {
	pairs := b.cmd.Flags().StringArray("option", nil, "option of the provider as name=value; may be repeated")
	b.onFlag(func(d document) error {
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
			options[name] = value // not set: the name may contain dots
		}
		return nil
	}, "option")
}

func newSourceCreate(r *remote) *cobra.Command {
	var b *body
	cmd := r.verb("create SLUG", "Create a source", cobra.MaximumNArgs(1), func(cmd *cobra.Command, s *session, args []string) error {
		raw, err := b.readNamed("slug", args)
		if err != nil {
			return err
		}
		x, err := s.CreateSourceFrom(cmd.Context(), s.tenant, raw, s.keepBody())
		if err := s.showSource(x, err); err != nil {
			return err
		}
		if x.Consume == nil {
			s.Say("\nURL for the provider: %s", x.IngestURL)
		} else {
			s.Say("\nState of its consumer: eventhook source get %s", x.Slug)
		}
		s.Say("To route its events:   eventhook route create NAME --source %s --type 'a.type' --task KIND", x.Slug)
		return nil
	})
	b = newBody(cmd).sourceFlags()
	cmd.Example = `  eventhook source create github --provider github --secret-env GITHUB_SECRET
  eventhook source create slack --provider slack --secret-file slack.secret
  pass show crm | eventhook source create crm --verifier '{"type":"hmac","header":"X-Signature"}' --secret-file -
  eventhook source create orders --consume @kafka.json
  eventhook source create shop -f shop.yaml`
	return cmd
}

func newSourceUpdate(r *remote) *cobra.Command {
	var b *body
	cmd := r.verb("update SLUG", "Update the given fields of a source", cobra.ExactArgs(1), func(cmd *cobra.Command, s *session, args []string) error {
		raw, err := b.readChange()
		if err != nil {
			return err
		}
		return s.showSource(s.UpdateSourceFrom(cmd.Context(), s.tenant, args[0], client.UpdateSourceParams{}, raw, s.keepBody()))
	})
	b = newBody(cmd).sourceFlags()
	return cmd
}
