package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v4"

	"github.com/eventhook/eventhook/internal/cli/input"
)

// document is the JSON body of a request while it is put together.
type document map[string]any

// set puts a value at a place such as rate_limit.burst_size.
func (d document) set(place string, value any) {
	first, rest, nested := strings.Cut(place, ".")
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

// body makes a request's document of a file and of the flags that go over it.
// What it holds is for the gateway to judge, which tells all faults at once.
type body struct {
	cmd  *cobra.Command
	file string
	over []func(document) error // in the order of their definition
}

// newBody gives a command the flag -f.
func newBody(cmd *cobra.Command) *body {
	b := &body{cmd: cmd}
	cmd.Flags().StringVarP(&b.file, "file", "f", "", "JSON or YAML of the API's request body, - for standard input; flags go over it")
	return b
}

// when has the document changed if one of the flags is given.
func (b *body) when(change func(document) error, flags ...string) {
	b.over = append(b.over, func(d document) error {
		for _, name := range flags {
			if b.cmd.Flags().Changed(name) {
				return change(d)
			}
		}
		return nil
	})
}

func (b *body) text(flag, place, usage string) {
	v := b.cmd.Flags().String(flag, "", usage)
	b.when(func(d document) error { d.set(place, *v); return nil }, flag)
}

// texts is a flag that may be repeated.
func (b *body) texts(flag, place, usage string) {
	v := b.cmd.Flags().StringArray(flag, nil, usage+"; may be repeated")
	b.when(func(d document) error { d.set(place, *v); return nil }, flag)
}

func (b *body) number(flag, place, usage string) {
	v := b.cmd.Flags().Int64(flag, 0, usage)
	b.when(func(d document) error { d.set(place, *v); return nil }, flag)
}

// limit is a number, or none.
func (b *body) limit(flag, place, usage string) {
	v := b.cmd.Flags().String(flag, "", usage+", or none")
	b.when(func(d document) error {
		if *v == "none" {
			d.set(place, nil)
			return nil
		}
		n := json.Number(*v)
		if _, err := n.Int64(); err != nil {
			return fmt.Errorf("--%s %q, want a number or none", flag, *v)
		}
		d.set(place, n)
		return nil
	}, flag)
}

func (b *body) yes(flag, place, usage string) {
	v := b.cmd.Flags().Bool(flag, false, usage)
	b.when(func(d document) error { d.set(place, *v); return nil }, flag)
}

// json is a flag whose value is JSON, or @FILE with it.
func (b *body) json(flag, place, usage string) {
	v := b.cmd.Flags().String(flag, "", usage+", or @FILE")
	b.when(func(d document) error {
		text, err := input.TextOrFile(*v)
		if err != nil {
			return err
		}
		value, err := parseJSON([]byte(text))
		if err != nil {
			return fmt.Errorf("--%s is not JSON: %w", flag, err)
		}
		d.set(place, value)
		return nil
	}, flag)
}

// read is the document as JSON.
func (b *body) read(preset document) (json.RawMessage, error) {
	d := document{}
	if b.file != "" {
		if err := b.readFile(d); err != nil {
			return nil, input.Usage(err)
		}
	}
	for place, value := range preset {
		d.set(place, value)
	}
	for _, change := range b.over {
		if err := change(d); err != nil {
			return nil, input.Usage(err)
		}
	}
	raw, err := json.Marshal(d)
	if err != nil {
		return nil, input.Usagef("%s cannot be written as JSON: %w", b.file, err)
	}
	return raw, nil
}

// readFile reads JSON, or YAML, which has a shape for JSON.
func (b *body) readFile(d document) error {
	raw, err := input.ReadFile(b.file, b.cmd.InOrStdin())
	if err != nil {
		return err
	}
	if value, err := parseJSON(raw); err == nil {
		object, ok := value.(map[string]any)
		if !ok {
			return fmt.Errorf("%s holds no object", b.file)
		}
		for name := range object {
			d[name] = object[name]
		}
		return nil
	}
	if err := yaml.Unmarshal(raw, (*map[string]any)(&d)); err != nil {
		return fmt.Errorf("%s is neither JSON nor YAML of an object: %w", b.file, err)
	}
	return nil
}

// parseJSON keeps numbers as they are written.
func parseJSON(raw []byte) (value any, err error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&value); err != nil {
		return nil, err
	}
	if d.More() {
		return nil, errors.New("something follows it")
	}
	return value, nil
}

// readNamed is the document of something to be made, whose name, under a
// member, may be the command's argument.
func (b *body) readNamed(member string, args []string) (json.RawMessage, error) {
	preset := document{}
	if len(args) > 0 {
		preset[member] = args[0]
	}
	raw, err := b.read(preset)
	if err == nil && string(raw) == "{}" {
		err = input.Usagef("what shall it be? Name its %s, or give a file with -f", member)
	}
	return raw, err
}

// readChange is a document that must change something.
func (b *body) readChange() (json.RawMessage, error) {
	raw, err := b.read(nil)
	if err == nil && string(raw) == "{}" {
		err = input.Usagef("what shall change? Give it as flags, or in a file with -f")
	}
	return raw, err
}

// optionalFlag is nil for a flag that was not given.
func optionalFlag[T ~string](text T) *T {
	if text == "" {
		return nil
	}
	return &text
}
