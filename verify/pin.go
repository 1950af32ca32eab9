package verify

import (
	"maps"
	"slices"

	"github.com/eventhook/eventhook"
)

// pin is a field of the body that must have a configured value. It restricts a
// source to one account if the provider signs the requests of all accounts with
// the same key.
type pin struct {
	at       alternatives
	want     string
	mismatch *Error
}

// addPins adds a pin for each claim of c.
func (o *outline) addPins(c Config) {
	for _, name := range slices.Sorted(maps.Keys(c.Claims)) {
		if o.fields == nil {
			o.fields = newFieldSet()
		}
		o.pins = append(o.pins, pin{o.fields.addAll(parseFieldPath(name)), c.Claims[name],
			refusef(ReasonMismatch, "the body's %s does not have the configured value", name)})
	}
}

// checkPins compares the pins with the body. It runs before the signature check.
func (o *outline) checkPins(w *workspace) *Error {
	for i := range o.pins {
		p := &o.pins[i]
		text, err := p.at.text(w.found)
		if err != nil {
			return err
		}
		if text != p.want {
			return p.mismatch
		}
	}
	return nil
}

func validatePins(c Config, f *eventhook.Faults) {
	for name, value := range c.Claims {
		validateOnePath("claims", name, false, f)
		if value == "" {
			f.Add("claims", "want a path and a value for each claim")
		}
	}
}
