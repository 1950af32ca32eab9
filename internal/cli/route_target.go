package cli

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/cli/input"
)

// targetFlags are the flags that describe one target. --target and -f can describe
// several.
var targetFlags = []struct{ flag, member, usage string }{
	{"task", "task_kind", "target: create a task of this kind"},
	{"workflow", "workflow_kind", "target: create a workflow of this kind"},
	{"promise-key", "idempotency_key_path", "target: resolve the promise whose key is at this path, such as body.data.object.id"},
	{"publish", "event_type", "target: publish an event of this type"},
	{"http", "url", "target: send the event to this URL; use -f to set an Authorization header"},
	{"target-type", "type", "target of this type, such as kafka; --setting has its settings"},
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
	settings := set.StringArray("setting", nil, "setting of the target as NAME=VALUE, such as topic=orders; VALUE may be @FILE; may be repeated")
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
		if err := addSettings(one, *settings); err != nil {
			return err
		}
		if len(one) > 0 {
			typ, err := targetType(set.Changed)
			if err != nil {
				return err
			}
			if typ != "" {
				one["type"] = typ
			}
			targets = append(targets, one)
		}
		d.set("targets", targets)
		return nil
	}, append(names, "target", "setting")...)
}

// addSettings adds settings of the form NAME=VALUE to a target. A setting of the API that is not a text is
// JSON, such as tls=false.
func addSettings(target map[string]any, settings []string) error {
	for _, setting := range settings {
		name, value, ok := strings.Cut(setting, "=")
		if !ok || name == "" || name == "type" {
			return errors.New("--setting must be NAME=VALUE, such as topic=orders; --target-type has the type")
		}
		text, err := input.TextOrFile(value)
		if err != nil {
			return fmt.Errorf("--setting %s: %w", name, err)
		}
		if isText(name) {
			target[name] = strings.TrimRight(text, "\r\n") // of a file with a password
			continue
		}
		if target[name], err = parseJSON([]byte(text)); err != nil {
			return fmt.Errorf("--setting %s is not JSON, such as 5, true or {}", name)
		}
	}
	return nil
}

// isText reports whether a setting of targets is a text. The gateway refuses unknown settings.
func isText(name string) bool {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[client.Target]()) {
		if member, _, _ := strings.Cut(f.Tag.Get("json"), ","); member == name {
			return f.Type.Kind() == reflect.Pointer && f.Type.Elem().Kind() == reflect.String
		}
	}
	return true
}

// targetType returns the type of the target that the flags describe, "" if --target-type has it.
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
	if given("target-type") {
		types = append(types, "")
	}
	if len(types) != 1 || types[0] == client.TargetTypePromise && given("key-path") {
		return "", errors.New("exactly one of --task, --workflow, --promise-key, --publish, --http and --target-type is required, and --key-path is not for promises; use --target or -f for several targets")
	}
	return types[0], nil
}
