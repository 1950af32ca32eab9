package configs

import (
	"errors"
	"fmt"
	"maps"
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
		f.Add(lineText(e.Mark.Line), "contains a value that cannot be read")
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

// lineOfNode returns the line of a node as the location of a fault.
func lineOfNode(n *yaml.Node) string { return lineText(n.Line) }

// checkType compares a document with the Go type that it is decoded into. It returns
// a fault for each unknown field, each field that occurs twice and each value of the
// wrong type, at its location. fits is false if a value has the wrong type: such a
// document cannot be decoded.
func checkType(n *yaml.Node, t reflect.Type, at func(*yaml.Node) string) (faults eventhook.Faults, fits bool) {
	c := typeChecker{at: at, fits: true, checked: map[typedNode]bool{}, fields: map[reflect.Type]map[string]reflect.Type{}}
	c.value("", n, t)
	return c.faults, c.fits
}

type typeChecker struct {
	at     func(*yaml.Node) string // returns the location of a node
	faults eventhook.Faults
	fits   bool
	// checked makes aliases cheap: a node is checked once for each type that it is
	// decoded into.
	checked map[typedNode]bool
	fields  map[reflect.Type]map[string]reflect.Type // results of fieldsOf
}

type typedNode struct {
	node *yaml.Node
	t    reflect.Type
}

var (
	nodeType = reflect.TypeFor[yaml.Node]()
	// A value of an open type is checked as one of these types, to find fields that occur twice.
	openMap  = reflect.TypeFor[map[string]any]()
	openList = reflect.TypeFor[[]any]()
)

// value checks the value of a field. The elements of a list have the name of the list; the
// document itself has the name "".
func (c *typeChecker) value(name string, n *yaml.Node, t reflect.Type) {
	n = resolved(n)
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if c.checked[typedNode{n, t}] {
		return
	}
	c.checked[typedNode{n, t}] = true
	switch {
	case t == nodeType || n.ShortTag() == "!!null":
	case t.Kind() == reflect.Interface && n.Kind == yaml.MappingNode:
		c.value(name, n, openMap)
	case t.Kind() == reflect.Interface && n.Kind == yaml.SequenceNode:
		c.value(name, n, openList)
	case t.Kind() == reflect.Interface:
	case !accepts(t, n):
		c.misfit(n, "%s", strings.TrimSpace(name+" has "+describeNode(n)+", want "+describeType(t)))
	case t.Kind() == reflect.Struct:
		fields := c.fieldsOf(t)
		c.mapping(n, t, func(name string) (reflect.Type, bool) {
			field, ok := fields[name]
			return field, ok
		})
	case t.Kind() == reflect.Map:
		c.mapping(n, t, func(string) (reflect.Type, bool) { return t.Elem(), true })
	case t.Kind() == reflect.Slice:
		for _, element := range n.Content {
			c.value(name, element, t.Elem())
		}
	}
}

// mapping checks a mapping that is decoded into the type t. typeOf returns the type of a
// field, and false if t has no such field.
func (c *typeChecker) mapping(n *yaml.Node, t reflect.Type, typeOf func(name string) (reflect.Type, bool)) {
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := resolved(n.Content[i]), n.Content[i+1]
		field, ok := typeOf(key.Value)
		switch isMerge := key.ShortTag() == "!!merge"; {
		case key.Kind != yaml.ScalarNode:
			c.misfit(key, "the name of a field must be a text")
		case seen[key.Value]:
			c.misfit(key, "the field %q occurs twice", key.Value)
		case isMerge && resolved(value).Kind == yaml.SequenceNode:
			c.value("", value, reflect.SliceOf(t))
		case isMerge:
			c.value("", value, t)
		case !ok:
			c.faults.Add(c.at(key), "there is no field %q here", key.Value)
		default:
			c.value(key.Value, value, field)
		}
		seen[key.Value] = true
	}
}

// misfit adds a fault of a node that cannot be decoded.
func (c *typeChecker) misfit(n *yaml.Node, format string, args ...any) {
	c.fits = false
	c.faults.Add(c.at(n), format, args...)
}

// resolved returns the node that an alias refers to, and any other node itself.
func resolved(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias // an alias comes after its anchor, so it is never an alias of itself
	}
	return n
}

// fieldsOf returns the types of the fields of a struct by their YAML names, with the
// fields of inlined structs.
func (c *typeChecker) fieldsOf(t reflect.Type) map[string]reflect.Type {
	if fields, ok := c.fields[t]; ok {
		return fields
	}
	fields := map[string]reflect.Type{}
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if options == "inline" {
			maps.Copy(fields, c.fieldsOf(f.Type))
			continue
		}
		if name == "" {
			name = strings.ToLower(f.Name)
		}
		if name != "-" && f.IsExported() {
			fields[name] = f.Type
		}
	}
	c.fields[t] = fields
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
