package verify

import (
	"maps"
	"slices"

	"github.com/eventhook/eventhook"
)

// A pin is a field of the body that must have one value, so that a key that
// signs for all accounts of a provider proves more than the provider's name.
type pin struct {
	at   alternatives
	want string
	not  *Error
}

// pin makes the pins of the claims of a config.
func (o *outline) pin(c Config) {
	for _, name := range slices.Sorted(maps.Keys(c.Claims)) {
		if o.fields == nil {
			o.fields = newFieldSet()
		}
		o.pins = append(o.pins, pin{o.fields.addAll(parseFieldPath(name)), c.Claims[name],
			refusef(ReasonMismatch, "the body's %s is not the configured one", name)})
	}
}

// pinned compares the pins with the body, before a signature is verified.
func (o *outline) pinned(w *workspace) *Error {
	for i := range o.pins {
		p := &o.pins[i]
		text, err := p.at.text(w.found)
		if err != nil {
			return err
		}
		if text != p.want {
			return p.not
		}
	}
	return nil
}

func validatePins(c Config, f *eventhook.Faults) {
	for name, value := range c.Claims {
		validateOnePath("claims", name, false, f)
		if value == "" {
			f.Add("claims", "want names with values")
		}
	}
}
