package configs

import (
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/eventhook/eventhook"
)

// syntaxFaults returns the fault of a text that is not YAML, at the line that the
// parser reports. It does not quote the text, which may contain secrets.
func syntaxFaults(err error) (f eventhook.Faults) {
	e, ok := errors.AsType[*yaml.LoadError](err)
	switch {
	case !ok:
		f.Add("", "is not YAML")
	case e.Stage == yaml.ComposerStage:
		f.Add(lineText(e.Mark.Line), "refers to an unknown anchor; put a text that begins with * in quotes")
	case e.Stage == yaml.ConstructorStage:
		f.Add(lineText(e.Mark.Line), "contains a value of the wrong type")
	default:
		f.Add(lineText(e.Mark.Line), "is not YAML: %s", e.Message)
	}
	return f
}

// lineText returns the location of a line, "" if the parser does not know it.
func lineText(line int) string {
	if line < 1 {
		return ""
	}
	return fmt.Sprintf("line %d", line)
}

// checkType compares a document with the Go type that it is decoded into. It returns
// a fault for each unknown field, each field that occurs twice and each value of the
// wrong type, at its line. fits is false if a value has the wrong type: such a
// document cannot be decoded.
func checkType(n *yaml.Node, t reflect.Type) (faults eventhook.Faults, fits bool) {
	c := typeChecker{fits: true, checked: map[typedNode]bool{}}
	c.value(n, t)
	return c.faults, c.fits
}

type typeChecker struct {
	faults eventhook.Faults
	fits   bool
	// checked makes aliases cheap: a node is checked once for each type that it is
	// decoded into.
	checked map[typedNode]bool
}

type typedNode struct {
	node *yaml.Node
	t    reflect.Type
}

var nodeType = reflect.TypeFor[yaml.Node]()

func (c *typeChecker) value(n *yaml.Node, t reflect.Type) {
	for n.Kind == yaml.AliasNode {
		n = n.Alias // an alias comes after its anchor, so it is never an alias of itself
	}
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if c.checked[typedNode{n, t}] {
		return
	}
	c.checked[typedNode{n, t}] = true
	switch {
	case t == nodeType || n.ShortTag() == "!!null":
	case !accepts(t, n):
		c.fits = false
		c.faults.Add(lineText(n.Line), "has %s, want %s", describeNode(n), describeType(t))
	case t.Kind() == reflect.Struct:
		c.object(n, t)
	case t.Kind() == reflect.Slice:
		for _, element := range n.Content {
			c.value(element, t.Elem())
		}
	case t.Kind() == reflect.Map:
		for i := 0; i+1 < len(n.Content); i += 2 {
			c.value(n.Content[i+1], t.Elem())
		}
	}
}

func (c *typeChecker) object(n *yaml.Node, t reflect.Type) {
	fields, seen := fieldsOf(t), map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		field, ok := fields[key.Value]
		switch {
		case key.ShortTag() == "!!merge" && value.Kind == yaml.SequenceNode:
			c.value(value, reflect.SliceOf(t))
		case key.ShortTag() == "!!merge":
			c.value(value, t)
		case seen[key.Value]:
			c.fits = false
			c.faults.Add(lineText(key.Line), "the field %q occurs twice", key.Value)
		case !ok:
			c.faults.Add(lineText(key.Line), "there is no field %q here", key.Value)
		default:
			c.value(value, field)
		}
		seen[key.Value] = true
	}
}

// fieldsOf returns the types of the fields of a struct by their YAML names, with the
// fields of inlined structs.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	fields := map[string]reflect.Type{}
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if options == "inline" {
			for name, inner := range fieldsOf(f.Type) {
				fields[name] = inner
			}
			continue
		}
		if name == "" {
			name = strings.ToLower(f.Name)
		}
		if name != "-" && f.IsExported() {
			fields[name] = f.Type
		}
	}
	return fields
}

// accepts reports whether the decoder can store the node in a value of the type. The
// elements of a list and the fields of a mapping are not checked.
func accepts(t reflect.Type, n *yaml.Node) bool {
	switch t.Kind() {
	case reflect.Struct, reflect.Map:
		return n.Kind == yaml.MappingNode
	case reflect.Slice:
		return n.Kind == yaml.SequenceNode
	default:
		return n.Kind == yaml.ScalarNode && n.Decode(reflect.New(t).Interface()) == nil
	}
}

func describeNode(n *yaml.Node) string {
	description, ok := map[string]string{"!!str": "a text", "!!seq": "a list", "!!map": "fields", "!!int": "a whole number", "!!float": "a number",
		"!!bool": "true or false", "!!timestamp": "a time"}[n.ShortTag()]
	if !ok {
		return "a value of another type"
	}
	return description
}

func describeType(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Struct, reflect.Map:
		return "fields"
	case reflect.Slice:
		return "a list"
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64:
		return "a whole number"
	case reflect.Float64:
		return "a number"
	default:
		return "a text"
	}
}

// inFile puts the name of the file before the location of each fault.
func inFile(path string, faults eventhook.Faults) eventhook.Faults {
	var all eventhook.Faults
	for _, f := range faults {
		all.Add(strings.TrimSuffix(filepath.Base(path)+": "+f.Location, ": "), "%s", f.Message)
	}
	return all
}
