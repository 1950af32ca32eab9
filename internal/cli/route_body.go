package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/cli/input"
)

// routeFlags are the flags of what a route is told.
func (b *body) routeFlags() *body {
	b.text("name", "name", "its name")
	b.number("priority", "priority", "higher ones come first")
	b.texts("type", "filter_event_types", "event type: exact, prefix.*, or *")
	b.json("filter", "filter", `conditions, such as {"body.amount":{"$gte":1000}}`)
	b.code("filter-expression", "filter_expression", "CEL, such as body.livemode && body.amount > 100")
	b.code("filter-function", "filter_function", "JavaScript: function filter(event)")
	b.transform()
	b.yes("enabled", "is_enabled", "whether it takes events (--enabled=false: it does not)")
	b.target()
	return b
}

// code is a flag whose text may stand in a file.
func (b *body) code(flag, place, usage string) {
	v := b.cmd.Flags().String(flag, "", usage+", or @FILE")
	b.when(func(d document) error {
		text, err := input.TextOrFile(*v)
		d.set(place, text)
		return err
	}, flag)
}

// transform is a flag like jmespath:{id: data.object.id} or javascript:@file.js.
func (b *body) transform() {
	v := b.cmd.Flags().String("transform", "", "what targets get: jmespath:EXPRESSION, or javascript:@FILE")
	b.when(func(d document) error {
		kind, text, _ := strings.Cut(*v, ":")
		if t := client.TransformType(kind); t != client.TransformTypeJmespath && t != client.TransformTypeJavascript {
			return errors.New("--transform wants jmespath:EXPRESSION or javascript:CODE, each also as @FILE")
		}
		text, err := input.TextOrFile(text)
		d.set("transform", map[string]any{"type": kind, "expression": text})
		return err
	}, "transform")
}

// targetFlags are those of one target. Several are for --target or -f.
var targetFlags = []struct{ flag, member, usage string }{
	{"task", "task_kind", "make a task of this kind"},
	{"workflow", "workflow_kind", "make a workflow of this kind"},
	{"promise-key", "idempotency_key_path", "settle the promise whose key is there, such as body.data.object.id"},
	{"publish", "event_type", "publish an event of this type"},
	{"http", "url", "send the event to this URL; what it is to authenticate with is given with -f"},
	{"queue", "queue", "the queue of the task or workflow; default by default"},
	{"key-path", "idempotency_key_path", "where the key of the task, workflow or event is: one is made for each"},
	{"key-prefix", "idempotency_key_prefix", "what stands before that key, such as stripe:"},
	{"value-path", "value_path", "where the promise's value is; the body by default"},
	{"error-path", "error_path", "where this is, the promise is rejected with it"},
}

// target makes one target of flags, or several of --target. They stand in
// place of all that a file or the route itself has.
func (b *body) target() {
	set := b.cmd.Flags()
	values := map[string]*string{}
	names := []string{}
	for _, f := range targetFlags {
		values[f.flag] = set.String(f.flag, "", f.usage)
		names = append(names, f.flag)
	}
	spelledOut := set.StringArray("target", nil, `a target as JSON, such as {"type":"task","task_kind":"build"}; may be repeated`)
	b.when(func(d document) error {
		var targets []any
		for _, text := range *spelledOut {
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

// targetType is the type of the target that flags describe.
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
		return "", errors.New("one of --task, --workflow, --promise-key, --publish and --http says what the target is; several targets are given with --target or -f")
	}
	return types[0], nil
}

func newRouteCreate(r *remote) *cobra.Command {
	var b *body
	var source string
	cmd := r.verb("create NAME", "Make a route", cobra.MaximumNArgs(1), func(cmd *cobra.Command, s *session, args []string) error {
		raw, err := b.readNamed("name", args)
		if err != nil {
			return err
		}
		return s.showRoute(s.CreateRouteFrom(cmd.Context(), s.tenant, source, raw, s.keep()))
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
	return ofSource(cmd, &source)
}

func newRouteUpdate(r *remote) *cobra.Command {
	var b *body
	var source string
	cmd := r.verb("update NAME", "Change what you name of a route; its targets as a whole", cobra.ExactArgs(1), func(cmd *cobra.Command, s *session, args []string) error {
		raw, err := b.readChange()
		if err != nil {
			return err
		}
		id, err := s.routeID(cmd.Context(), source, args[0])
		if err != nil {
			return err
		}
		return s.showRoute(s.UpdateRouteFrom(cmd.Context(), s.tenant, source, id, client.UpdateRouteParams{}, raw, s.keep()))
	})
	b = newBody(cmd).routeFlags()
	return ofSource(cmd, &source)
}
