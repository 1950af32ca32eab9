package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/eventhook/eventhook/client"
)

// targetField is a member of a target that the editor shows as a field of its own.
type targetField struct {
	Member, Label, Help, Placeholder string
	Required, IsNumber               bool
	Options                          []string
}

var keyField = targetField{Member: "idempotency_key_path", Label: "Path of the idempotency key", Placeholder: "body.id", Help: "A second effect with the same key is skipped."}

// workFields are the fields of tasks and workflows after their kind.
var workFields = []targetField{
	{Member: "queue", Label: "Queue", Placeholder: "default"}, {Member: "priority", Label: "Priority", Placeholder: "0", IsNumber: true},
	{Member: "max_attempts", Label: "Attempts", Placeholder: "4", IsNumber: true}, keyField,
}

// targetTypes are the types in the order of the menu.
var targetTypes = []string{"task", "workflow", "publish", "promise", "http"}

var targetFields = map[string][]targetField{
	"task":     append([]targetField{{Member: "task_kind", Label: "Kind of the task", Required: true, Help: "Workers choose their handler by it."}}, workFields...),
	"workflow": append([]targetField{{Member: "workflow_kind", Label: "Kind of the workflow", Required: true, Help: "Workers choose their handler by it."}}, workFields...),
	"publish":  {{Member: "event_type", Label: "Type of the published event", Required: true, Placeholder: "payment.succeeded"}, keyField},
	"promise": {{Member: "idempotency_key_path", Label: "Path of the promise's key", Required: true, Placeholder: "body.id", Help: "Names the promise that is resolved."},
		{Member: "value_path", Label: "Path of the value", Placeholder: "body.result"}, {Member: "error_path", Label: "Path of the error", Help: "If the event has a value there, the promise is rejected with it."},
		{Member: "on_missing", Label: "If the promise does not exist yet", Options: []string{"hold", "fail"}}},
	"http": {{Member: "url", Label: "URL", Required: true, Placeholder: "https://internal.example/hook"}, {Member: "method", Label: "Method", Options: []string{"POST", "PUT", "PATCH"}},
		{Member: "body", Label: "What is sent", Options: []string{"input", "raw"}, Help: "input: the event, or what the transform returns. raw: the received bytes and headers."},
		{Member: "auth_header", Label: "Authorization header", Placeholder: "Bearer …", Help: "Shown as [redacted] once it is saved."}, {Member: "timeout_seconds", Label: "Timeout in seconds", Placeholder: "10", IsNumber: true}},
}

// targetForm is a target in the editor. Rest is the name of the field with all other members, as
// JSON.
type targetForm struct {
	Index  int
	Type   string
	Fields []targetField
	Rest   string
}

func targetName(index int) string { return fmt.Sprintf("targets[%d]", index) }

// Name returns the name of a field.
func (t targetForm) Name(member string) string { return t.Rest + "." + member }

// Number is the place of the target, from 1.
func (t targetForm) Number() int { return t.Index + 1 }

// targetsOf returns the targets of a form.
func targetsOf(v url.Values) []targetForm {
	var all []targetForm
	const most = 50 // the API's limit
	count, _ := strconv.Atoi(v.Get("targets"))
	for i := range min(count, most) {
		kind := v.Get(targetName(i) + ".type")
		all = append(all, targetForm{Index: i, Type: kind, Fields: targetFields[kind], Rest: targetName(i)})
	}
	return all
}

// putTarget writes a target of the API into the fields of a form.
func putTarget(v url.Values, index int, t client.Target) error {
	raw, err := json.Marshal(t)
	if err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	rest := map[string]any{}
	if err := d.Decode(&rest); err != nil {
		return err
	}
	name := targetName(index)
	v.Set(name+".type", string(t.Type))
	delete(rest, "type")
	for _, f := range targetFields[string(t.Type)] {
		if value, ok := rest[f.Member]; ok {
			v.Set(name+"."+f.Member, fmt.Sprint(value))
			delete(rest, f.Member)
		}
	}
	if len(rest) > 0 {
		more, _ := json.MarshalIndent(rest, "", "  ") // was decoded from JSON
		v.Set(name, string(more))
	}
	return nil
}

// target returns the target of a form as the API takes it. Faults go to the form.
func (t targetForm) target(f *form) map[string]any {
	object := map[string]any{}
	if text := strings.TrimSpace(f.Get(t.Rest)); text != "" {
		d := json.NewDecoder(strings.NewReader(text))
		d.UseNumber()
		if err := d.Decode(&object); err != nil {
			f.Faults[t.Rest] = "is not a JSON object: " + jsonFault(err)
		}
	}
	object["type"] = t.Type
	for _, field := range t.Fields {
		name := t.Name(field.Member)
		switch value := strings.TrimSpace(f.Get(name)); {
		case value == "":
		case field.IsNumber:
			if _, err := strconv.ParseInt(value, 10, 64); err != nil {
				f.Faults[name] = "is not a whole number"
				continue
			}
			object[field.Member] = json.Number(value)
		default:
			object[field.Member] = value
		}
	}
	return object
}

// addTarget appends an empty target to the values of a form.
func addTarget(v url.Values, kind string) {
	count, _ := strconv.Atoi(v.Get("targets"))
	v.Set(targetName(count)+".type", kind)
	v.Set("targets", strconv.Itoa(count+1))
}

// removeTarget deletes a target from the values of a form and renumbers those behind it.
func removeTarget(v url.Values, index int) {
	count, _ := strconv.Atoi(v.Get("targets"))
	if index < 0 || index >= count {
		return
	}
	for i := index; i < count; i++ {
		clearTarget(v, i)
		if i == count-1 {
			break
		}
		for _, name := range slices.Collect(maps.Keys(v)) {
			if rest, ok := strings.CutPrefix(name, targetName(i+1)); ok {
				v[targetName(i)+rest] = v[name]
			}
		}
	}
	v.Set("targets", strconv.Itoa(count-1))
}

func clearTarget(v url.Values, index int) {
	maps.DeleteFunc(v, func(name string, _ []string) bool { return strings.HasPrefix(name, targetName(index)) })
}
