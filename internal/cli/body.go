package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/spf13/cobra"

	"github.com/eventhook/eventhook/internal/cli/input"
)

// document is the JSON object of a request body.
type document map[string]any

// set sets a member, or a member of a nested object such as rate_limit.burst_size.
func (d document) set(path string, value any) {
	first, rest, nested := strings.Cut(path, ".")
	if !nested {
		d[first] = value
		return
	}
	inner, ok := d[first].(map[string]any)
	if !ok {
		inner = map[string]any{}
		d[first] = inner
	}
	document(inner).set(rest, value)
}

// body builds the document of a request from a file and from flags that override
// it. It does not validate the document: the gateway does, and reports all faults.
type body struct {
	cmd     *cobra.Command
	file    string
	changes []func(document) error // by flags, in the order of definition
}

// newBody defines the flag -f of a command.
func newBody(cmd *cobra.Command) *body {
	b := &body{cmd: cmd}
	cmd.Flags().StringVarP(&b.file, "file", "f", "", "file with the request body of the API as JSON or YAML, - for standard input; flags override it")
	return b
}

// onFlag applies a change to the document if one of the flags is given.
func (b *body) onFlag(change func(document) error, flags ...string) {
	b.changes = append(b.changes, func(d document) error {
		for _, name := range flags {
			if b.cmd.Flags().Changed(name) {
				return change(d)
			}
		}
		return nil
	})
}

// text defines a flag for a text.
func (b *body) text(flag, path, usage string) {
	v := b.cmd.Flags().String(flag, "", usage)
	b.onFlag(func(d document) error { d.set(path, *v); return nil }, flag)
}

// texts defines a flag for a list of texts, which may be repeated.
func (b *body) texts(flag, path, usage string) {
	v := b.cmd.Flags().StringArray(flag, nil, usage+"; may be repeated")
	b.onFlag(func(d document) error { d.set(path, *v); return nil }, flag)
}

// number defines a flag for an integer.
func (b *body) number(flag, path, usage string) {
	v := b.cmd.Flags().Int64(flag, 0, usage)
	b.onFlag(func(d document) error { d.set(path, *v); return nil }, flag)
}

// limit defines a flag for an integer or "none", which becomes null.
func (b *body) limit(flag, path, usage string) {
	v := b.cmd.Flags().String(flag, "", usage+", or none")
	b.onFlag(func(d document) error {
		if *v == "none" {
			d.set(path, nil)
			return nil
		}
		n := json.Number(*v)
		if _, err := n.Int64(); err != nil {
			return fmt.Errorf("--%s %q, want a number or none", flag, *v)
		}
		d.set(path, n)
		return nil
	}, flag)
}

// boolean defines a flag for true or false.
func (b *body) boolean(flag, path, usage string) {
	v := b.cmd.Flags().Bool(flag, false, usage)
	b.onFlag(func(d document) error { d.set(path, *v); return nil }, flag)
}

// json defines a flag for JSON, or for @FILE with JSON.
func (b *body) json(flag, path, usage string) {
	v := b.cmd.Flags().String(flag, "", usage+", or @FILE")
	b.onFlag(func(d document) error {
		text, err := input.TextOrFile(*v)
		if err != nil {
			return err
		}
		value, err := parseJSON([]byte(text))
		if err != nil {
			return fmt.Errorf("--%s is not JSON: %w", flag, err)
		}
		d.set(path, value)
		return nil
	}, flag)
}

// read returns the document as JSON: the file, overridden by preset, overridden by
// the flags.
func (b *body) read(preset document) (json.RawMessage, error) {
	d := document{}
	if b.file != "" {
		if err := b.readFile(d); err != nil {
			return nil, input.Usage(err)
		}
	}
	for path, value := range preset {
		d.set(path, value)
	}
	for _, change := range b.changes {
		if err := change(d); err != nil {
			return nil, input.Usage(err)
		}
	}
	raw, err := json.Marshal(d)
	if err != nil {
		return nil, input.Usagef("%s contains a value that JSON does not have, such as .nan, or a field whose name is not a text", b.file)
	}
	return raw, nil
}

// readFile reads an object of JSON or YAML into d.
func (b *body) readFile(d document) error {
	raw, err := input.ReadFile(b.file, b.cmd.InOrStdin())
	if err != nil {
		return err
	}
	value, err := parseJSON(raw)
	if err != nil {
		return parseYAML(b.file, raw, d)
	}
	object, ok := value.(map[string]any)
	if !ok {
		return fmt.Errorf("%s does not contain an object", b.file)
	}
	maps.Copy(d, object)
	return nil
}

// parseJSON decodes one JSON value. It keeps numbers as they are written.
func parseJSON(raw []byte) (value any, err error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&value); err != nil {
		return nil, err
	}
	if d.More() {
		return nil, errors.New("there is text after the JSON value")
	}
	return value, nil
}

// readNamed returns the document of an object to create. If the command has an
// argument, it is the value of member, the name of the object.
func (b *body) readNamed(member string, args []string) (json.RawMessage, error) {
	preset := document{}
	if len(args) > 0 {
		preset[member] = args[0]
	}
	raw, err := b.read(preset)
	if err == nil && string(raw) == "{}" {
		err = input.Usagef("the request is empty: give a %s, flags, or a file with -f", member)
	}
	return raw, err
}

// readChange returns the document of an update. It fails if the document is empty.
func (b *body) readChange() (json.RawMessage, error) {
	raw, err := b.read(nil)
	if err == nil && string(raw) == "{}" {
		err = input.Usagef("the request is empty: give flags, or a file with -f")
	}
	return raw, err
}

// optionalFlag returns nil for an empty text, the value of a flag that is not given.
func optionalFlag[T ~string](text T) *T {
	if text == "" {
		return nil
	}
	return &text
}
