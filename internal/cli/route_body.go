package cli

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/cli/input"
)

// routeFlags defines the flags for the fields of a route.
func (b *body) routeFlags() *body {
	b.text("name", "name", "name of the route")
	b.number("priority", "priority", "priority; routes with higher priorities are evaluated first")
	b.texts("type", "filter_event_types", "event type: exact, prefix.*, or *")
	b.json("filter", "filter", `conditions, such as {"body.amount":{"$gte":1000}}`)
	b.code("filter-expression", "filter_expression", "CEL, such as body.livemode && body.amount > 100")
	b.code("filter-function", "filter_function", "JavaScript: function filter(event)")
	b.transform()
	b.boolean("enabled", "is_enabled", "whether the route is enabled; --enabled=false disables it")
	b.target()
	return b
}

// code defines a flag for a text, or for @FILE with the text.
func (b *body) code(flag, path, usage string) {
	v := b.cmd.Flags().String(flag, "", usage+", or @FILE")
	b.onFlag(func(d document) error {
		text, err := input.TextOrFile(*v)
		d.set(path, text)
		return err
	}, flag)
}

// transform defines the flag --transform. Its value is such as
// jmespath:{id: data.object.id} or javascript:@file.js.
func (b *body) transform() {
	v := b.cmd.Flags().String("transform", "", "transform of the event: jmespath:EXPRESSION, or javascript:@FILE")
	b.onFlag(func(d document) error {
		kind, text, _ := strings.Cut(*v, ":")
		if t := client.TransformType(kind); t != client.TransformTypeJmespath && t != client.TransformTypeJavascript {
			return errors.New("--transform must be jmespath:EXPRESSION or javascript:CODE; each may be @FILE")
		}
		text, err := input.TextOrFile(text)
		d.set("transform", map[string]any{"type": kind, "expression": text})
		return err
	}, "transform")
}

func newRouteCreate(r *remote) *cobra.Command {
	var b *body
	var source string
	cmd := r.verb("create NAME", "Create a route", cobra.MaximumNArgs(1), func(cmd *cobra.Command, s *session, args []string) error {
		raw, err := b.readNamed("name", args)
		if err != nil {
			return err
		}
		return s.showRoute(s.CreateRouteFrom(cmd.Context(), s.tenant, source, raw, s.keepBody()))
	})
	b = newBody(cmd).routeFlags()
	cmd.Example = `  eventhook route create payments --source stripe --type 'payment_intent.*' --workflow process-payment --queue payments
  eventhook route create paid --source stripe --type payment_intent.succeeded --promise-key body.data.object.id --key-prefix stripe:
  eventhook route create large --source stripe --filter '{"body.data.object.amount":{"$gte":1000}}' --task review
  eventhook route create succeeded --source stripe --type payment_intent.succeeded --publish payment.succeeded
  eventhook route create forward --source stripe --http https://internal.example/hook
  eventhook route create forward-as-us --source stripe -f - <<EOF
    {"targets": [{"type": "http", "url": "https://internal.example/hook", "auth_header": "Bearer $TOKEN"}]}
EOF
  eventhook route create orders --source shop --target-type kafka --setting brokers=broker.example:9092 --setting topic=orders \
    --setting username=gateway --setting password=@/run/secrets/kafka --setting key_path=body.customer.id
  eventhook route create pay --source stripe --workflow ProcessPayment --queue payments --key-path body.data.object.id \
    --setting engine=temporal --setting address=temporal.example:7233 --setting namespace=acme
  eventhook route create live --source stripe --filter-expression body.livemode --transform 'jmespath:{id: data.object.id}' --task book
  eventhook route create many --source stripe -f route.yaml`
	return withSource(cmd, &source)
}

func newRouteUpdate(r *remote) *cobra.Command {
	var b *body
	var source string
	cmd := r.verb("update NAME", "Update the given fields of a route; targets are replaced as a whole", cobra.ExactArgs(1), func(cmd *cobra.Command, s *session, args []string) error {
		raw, err := b.readChange()
		if err != nil {
			return err
		}
		id, err := s.routeID(cmd.Context(), source, args[0])
		if err != nil {
			return err
		}
		return s.showRoute(s.UpdateRouteFrom(cmd.Context(), s.tenant, source, id, client.UpdateRouteParams{}, raw, s.keepBody()))
	})
	b = newBody(cmd).routeFlags()
	return withSource(cmd, &source)
}
