package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"strconv"
	"strings"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/web"
)

// targetForm is a target in the editor. Type is one of targetTypes. Rest is the name of the field with all other members, as
// JSON.
type targetForm struct {
	Index  int
	Type   string
	Fields []settingField
	Rest   string
}

func targetName(index int) string { return fmt.Sprintf("targets[%d]", index) }

// Name returns the name of a field.
func (t targetForm) Name(member string) string { return t.Rest + "." + member }

// Number is the place of the target, from 1.
func (t targetForm) Number() int { return t.Index + 1 }

// targetCount returns the number of targets of a form, from 0 to eventhook.MaxTargets.
func targetCount(v url.Values) int {
	n, _ := strconv.Atoi(v.Get("targets")) // 0 for other text, and the nearest int for a number beyond it
	return min(max(n, 0), eventhook.MaxTargets)
}

// targetsOf returns the targets of a form.
func targetsOf(v url.Values) []targetForm {
	var all []targetForm
	for i := range targetCount(v) {
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
	kind := string(t.Type)
	if t.Engine != nil && *t.Engine == client.TargetEngineTemporal {
		kind += onTemporal
		delete(rest, "engine")
	}
	v.Set(name+".type", kind)
	delete(rest, "type")
	putSettings(v, name, targetFields[kind], rest)
	if len(rest) > 0 {
		v.Set(name, web.Editable(plainJSON(rest)))
	}
	return nil
}

// target returns the target of a form as the API takes it. Faults go to the form.
func (t targetForm) target(f *form) map[string]any {
	object := map[string]any{}
	if text := strings.TrimSpace(f.Get(t.Rest)); text != "" {
		decoded, err := decodeObject(text)
		switch {
		case err != nil:
			f.Faults[t.Rest] = "is not a JSON object: " + jsonFault(err)
		case decoded == nil:
			f.Faults[t.Rest] = "is not a JSON object"
		default:
			object = decoded
		}
	}
	object["type"] = t.Type
	if kind, isTemporal := strings.CutSuffix(t.Type, onTemporal); isTemporal {
		object["type"], object["engine"] = kind, client.TargetEngineTemporal
	}
	for _, field := range t.Fields {
		if value := field.value(f, t.Name(field.Member)); value != nil {
			object[field.Member] = value
		}
	}
	t.addSecrets(f, object)
	return object
}

// addTarget appends an empty target to the values of a form, unless it has eventhook.MaxTargets.
func addTarget(v url.Values, kind string) {
	if count := targetCount(v); count < eventhook.MaxTargets {
		v.Set(targetName(count)+".type", kind)
		v.Set("targets", strconv.Itoa(count+1))
	}
}

// removeTarget deletes a target from the values of a form and renumbers those behind it.
func removeTarget(v url.Values, index int) {
	count := targetCount(v)
	if index < 0 || index >= count {
		return
	}
	kept := url.Values{"targets": {strconv.Itoa(count - 1)}}
	for name, values := range v {
		at, rest := targetOf(name)
		switch {
		case at == index || name == "targets":
		case at > index:
			kept[targetName(at-1)+rest] = values
		default:
			kept[name] = values
		}
	}
	clear(v)
	maps.Copy(v, kept)
	renumberAsked(v, index)
}

// targetOf returns the index of the target to which a field belongs, and the rest of its name; -1 for
// other fields.
func targetOf(name string) (index int, rest string) {
	number, rest, ok := strings.Cut(strings.TrimPrefix(name, "targets["), "]")
	index, err := strconv.Atoi(number)
	if !ok || err != nil || !strings.HasPrefix(name, "targets[") {
		return -1, ""
	}
	return index, rest
}
