package configs

import (
	"encoding/json"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// reference starts a text that stands for a variable. It contains a NUL, which no
// stored text contains.
const reference = "\x00variable "

// toYAML converts a value that marshals to a JSON object, and keeps the order of
// members and the digits of numbers. A text that starts with reference becomes a
// variable; $ is escaped in other texts that would contain a variable.
func (e *export) toYAML(v any) (*yaml.Node, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	text := textNode
	if e.literal {
		text = literalNode
	}
	return readNode(newDecoder(raw), text)
}

// readNode reads the next value. text converts the texts in it.
func readNode(d *json.Decoder, text func(string) (*yaml.Node, error)) (*yaml.Node, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t := token.(type) {
	case json.Delim:
		return readNodes(d, t, text)
	case string:
		return text(t)
	case json.Number:
		return numberNode(t.String()), nil
	default:
		n := &yaml.Node{}
		return n, n.Encode(t) // true, false, null
	}
}

// readNodes reads the elements after an opening bracket. A short list of texts and
// numbers stays on one line.
func readNodes(d *json.Decoder, open json.Delim, text func(string) (*yaml.Node, error)) (*yaml.Node, error) {
	n := &yaml.Node{Kind: yaml.MappingNode}
	if open == '[' {
		n.Kind = yaml.SequenceNode
	}
	const line = 80
	length, nested := 0, false
	for d.More() {
		child, err := readNode(d, text)
		if err != nil {
			return nil, err
		}
		n.Content = append(n.Content, child)
		length, nested = length+len(child.Value), nested || child.Kind != yaml.ScalarNode
	}
	if n.Kind == yaml.SequenceNode && !nested && length < line {
		n.Style = yaml.FlowStyle
	}
	_, err := d.Token() // the closing bracket
	return n, err
}

// textNode returns a text as LoadTenants reads it: with escaped variables, or as a
// reference.
func textNode(s string) (*yaml.Node, error) {
	if name, ok := strings.CutPrefix(s, reference); ok {
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Style: yaml.DoubleQuotedStyle, Value: "${" + name + "}"}, nil
	}
	if variable.MatchString(s) {
		s = strings.ReplaceAll(s, "$", "$$")
	}
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s}
	if isPlain(s) {
		return n, nil // quoted where it must be
	}
	return n, n.Encode(s)
}

// literalNode returns a text as ReadTenants reads it: unchanged, or as a reference.
func literalNode(s string) (*yaml.Node, error) {
	if name, ok := strings.CutPrefix(s, reference); ok {
		s = "${" + name + "}"
	}
	return jsonText(s)
}

// isPlain reports whether a text is one line of printable ASCII that no YAML version
// reads as a boolean. yaml.Node.Encode handles other texts, more slowly.
func isPlain(s string) bool {
	switch strings.ToLower(s) {
	case "", "y", "n", "yes", "no", "on", "off":
		return false
	}
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}

// numberNode returns a number with the digits of s. A number that YAML would read as
// text, such as 1e999, gets an explicit tag.
func numberNode(s string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: s}
	if _, err := strconv.ParseInt(s, 10, 64); err != nil {
		n.Tag = "!!float"
	}
	if _, err := strconv.ParseFloat(s, 64); err != nil {
		n.Style = yaml.TaggedStyle
	}
	return n
}

func plainText(s string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Value: s} }
