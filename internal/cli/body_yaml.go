package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v4"
)

// parseYAML decodes an object of YAML into d. Its errors contain names of fields and
// no values, which may be secrets.
func parseYAML(file string, raw []byte, d document) error {
	decoder := yaml.NewDecoder(bytes.NewReader(raw))
	var root, second yaml.Node
	if err := decoder.Decode(&root); err != nil && !errors.Is(err, io.EOF) {
		return notYAML(file, err)
	}
	switch err := decoder.Decode(&second); {
	case err == nil:
		return fmt.Errorf("%s contains more than one document", file)
	case !errors.Is(err, io.EOF):
		return notYAML(file, err)
	case len(root.Content) == 0 || root.Content[0].Kind != yaml.MappingNode:
		return fmt.Errorf("%s does not contain an object", file)
	}
	if key := repeatedKey(&root); key != nil {
		return fmt.Errorf("%s: line %d: the field %q occurs twice", file, key.Line, key.Value)
	}
	if root.Decode((*map[string]any)(&d)) != nil { // the error quotes the value
		return fmt.Errorf("%s contains a value that does not fit its tag, anchor or merge key", file)
	}
	return nil
}

// notYAML returns the error of a text that the parser refuses.
func notYAML(file string, err error) error {
	e, ok := errors.AsType[*yaml.LoadError](err)
	switch {
	case !ok:
		return fmt.Errorf("%s is not YAML", file)
	case e.Stage == yaml.ComposerStage: // the message quotes the text
		return fmt.Errorf("%s: line %d: refers to an unknown anchor; put a text that begins with * in quotes", file, e.Mark.Line)
	case e.Mark.Line < 1: // the parser did not get beyond the encoding
		return fmt.Errorf("%s is not YAML: %s", file, e.Message)
	}
	return fmt.Errorf("%s: line %d: is not YAML: %s", file, e.Mark.Line, e.Message)
}

// repeatedKey returns the first key that a mapping contains twice, or nil.
func repeatedKey(n *yaml.Node) *yaml.Node {
	seen := map[string]bool{}
	for i, c := range n.Content {
		if isKey := n.Kind == yaml.MappingNode && i%2 == 0 && c.Kind == yaml.ScalarNode; isKey && seen[c.Value] {
			return c
		} else if isKey {
			seen[c.Value] = true
		}
		if found := repeatedKey(c); found != nil {
			return found
		}
	}
	return nil
}
