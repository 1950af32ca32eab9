package configs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/eventhook/eventhook"
)

// toJSON converts a node to JSON and keeps the order of members and the digits of
// numbers. It returns nil for null. It adds a fault with its path for each value
// that JSON does not have.
func toJSON(n *yaml.Node) (json.RawMessage, eventhook.Faults) {
	if n.IsZero() || n.ShortTag() == "!!null" {
		return nil, nil
	}
	w := jsonWriter{limit: maxJSON}
	w.value("", n)
	if len(w.faults) > 0 {
		return nil, w.faults
	}
	return w.buf.Bytes(), nil
}

// flatJSON converts a mapping to a JSON object, with its merged mappings (<<). It
// converts another node as toJSON does.
func flatJSON(n *yaml.Node) (json.RawMessage, eventhook.Faults) {
	var fields map[string]yaml.Node
	if err := n.Decode(&fields); err != nil || fields == nil {
		return toJSON(n)
	}
	w := jsonWriter{limit: maxJSON}
	w.buf.WriteByte('{')
	for i, name := range slices.Sorted(maps.Keys(fields)) {
		value := fields[name]
		w.comma(i)
		w.text(name)
		w.buf.WriteByte(':')
		w.value(name, &value)
	}
	w.buf.WriteByte('}')
	if len(w.faults) > 0 {
		return nil, w.faults
	}
	return w.buf.Bytes(), nil
}

type jsonWriter struct {
	limit  int // of the bytes
	buf    bytes.Buffer
	faults eventhook.Faults
}

// Limits for documents with nested aliases.
const (
	maxJSON = 256 << 10
	maxPath = 4 << 10
)

// jsonNumber matches numbers that have the same form and value in JSON and YAML.
var jsonNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

func (w *jsonWriter) value(at string, n *yaml.Node) {
	if w.buf.Len() > w.limit || len(at) > maxPath {
		if len(w.faults) == 0 {
			w.faults.Add("", "is larger than %d bytes, or nested too deeply", w.limit)
		}
		return
	}
	switch n.Kind {
	case yaml.AliasNode:
		w.value(at, n.Alias) // an alias in its own anchor ends at the size limit
	case yaml.MappingNode:
		w.object(at, n)
	case yaml.SequenceNode:
		w.buf.WriteByte('[')
		for i, child := range n.Content {
			w.comma(i)
			w.value(fmt.Sprintf("%s[%d]", at, i), child)
		}
		w.buf.WriteByte(']')
	default:
		w.scalar(at, n)
	}
}

func (w *jsonWriter) object(at string, n *yaml.Node) {
	seen := map[string]bool{}
	w.buf.WriteByte('{')
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		inside := strings.TrimPrefix(at+"."+key.Value, ".")
		if key.Kind != yaml.ScalarNode || key.ShortTag() == "!!merge" {
			w.faults.Add(at, "line %d: field names must be texts", key.Line)
			continue
		}
		once(seen, inside, key.Value, &w.faults)
		w.comma(i)
		w.text(key.Value)
		w.buf.WriteByte(':')
		w.value(inside, n.Content[i+1])
	}
	w.buf.WriteByte('}')
}

func (w *jsonWriter) comma(i int) {
	if i > 0 {
		w.buf.WriteByte(',')
	}
}

func (w *jsonWriter) scalar(at string, n *yaml.Node) {
	switch tag := n.ShortTag(); tag {
	case "!!null":
		w.buf.WriteString("null")
	case "!!bool":
		w.buf.WriteString(strings.ToLower(n.Value))
	case "!!int", "!!float":
		if !jsonNumber.MatchString(n.Value) {
			w.faults.Add(at, "line %d: %s is not a number as JSON writes it; a text needs quotes", n.Line, n.Value)
		}
		w.buf.WriteString(n.Value)
	case "!!str", "!!timestamp":
		w.text(n.Value)
	default:
		w.faults.Add(at, "line %d: JSON has no %s", n.Line, tag)
	}
}

func (w *jsonWriter) text(s string) {
	e := json.NewEncoder(&w.buf)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err == nil {
		w.buf.Truncate(w.buf.Len() - 1) // the newline
	}
}
