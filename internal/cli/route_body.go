package cli

import (
	"errors"
	"fmt"
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

// targetFlags are the flags that describe one target. --target and -f can describe
// several.
var targetFlags = []struct{ flag, member, usage string }{
	{"task", "task_kind", "target: create a task of this kind"},
	{"workflow", "workflow_kind", "target: create a workflow of this kind"},
	{"promise-key", "idempotency_key_path", "target: resolve the promise whose key is at this path, such as body.data.object.id"},
	{"publish", "event_type", "target: publish an event of this type"},
	{"http", "url", "target: send the event to this URL; use -f to set an Authorization header"},
	{"queue", "queue", "queue of the task or workflow; the queue \"default\" by default"},
	{"key-path", "idempotency_key_path", "path of the idempotency key of the task, workflow or event; for each key, one is created"},
	{"key-prefix", "idempotency_key_prefix", "prefix of the idempotency key or promise key, such as stripe:"},
	{"value-path", "value_path", "path of the promise's value; the whole body by default"},
	{"error-path", "error_path", "path of an error; if the event has one, the promise is rejected with it"},
}

// target defines the flags for targets. The targets of the flags replace all targets
// of a file or of the stored route.
func (b *body) target() {
	set := b.cmd.Flags()
	values := map[string]*string{}
	names := []string{}
	for _, f := range targetFlags {
		values[f.flag] = set.String(f.flag, "", f.usage)
		names = append(names, f.flag)
	}
	list := set.StringArray("target", nil, `target as JSON, such as {"type":"task","task_kind":"build"}; may be repeated`)
	b.onFlag(func(d document) error {
		var targets []any
		for _, text := range *list {
			target, err := parseJSON([]byte(text))
			if err != nil {
				return fmt.Errorf("--target is not JSON: %w", err)
			}
			targets = append(targets, target)
		}
		one := map[string]any{}
		for _, f := range targetFlags {
			if set.Changed(f.flag) {
				one[f.member] = *values[f.flag]
			}
		}
		if len(one) > 0 {
			var err error
			if one["type"], err = targetType(set.Changed); err != nil {
				return err
			}
			targets = append(targets, one)
		}
		d.set("targets", targets)
		return nil
	}, append(names, "target")...)
}

// targetType returns the type of the target that the flags describe.
func targetType(given func(flag string) bool) (client.TargetType, error) {
	var types []client.TargetType
	for _, t := range []struct {
		flag string
		is   client.TargetType
	}{
		{"task", client.TargetTypeTask}, {"workflow", client.TargetTypeWorkflow}, {"promise-key", client.TargetTypePromise},
		{"publish", client.TargetTypePublish}, {"http", client.TargetTypeHTTP},
	} {
		if given(t.flag) {
			types = append(types, t.is)
		}
	}
	if len(types) != 1 || types[0] == client.TargetTypePromise && given("key-path") {
		return "", errors.New("exactly one of --task, --workflow, --promise-key, --publish and --http is required, and --key-path is not for promises; use --target or -f for several targets")
	}
	return types[0], nil
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
