package filter

import (
	"github.com/tidwall/gjson"

	"github.com/eventhook/eventhook/internal/meter"
)

// operand is a JSON value of a filter, prepared for comparison with values of events. Numbers are
// compared by value, and objects regardless of the order of members. If an object repeats a name,
// the first member counts, as in paths.
type operand struct {
	kind     gjson.Type // JSON for an object or an array
	raw      string
	text     string
	number   number
	isArray  bool
	elements []operand
	members  map[string]operand
}

func newOperand(r gjson.Result) operand {
	o := operand{kind: r.Type, raw: r.Raw}
	switch {
	case r.Type == gjson.String:
		o.text = r.Str
	case r.Type == gjson.Number:
		o.number = numberOf(&r)
	case r.IsArray():
		o.isArray = true
		r.ForEach(func(_, element gjson.Result) bool {
			o.elements = append(o.elements, newOperand(element))
			return true
		})
	case r.IsObject():
		o.members = map[string]operand{}
		r.ForEach(func(name, member gjson.Result) bool {
			if _, again := o.members[name.Str]; !again {
				o.members[name.Str] = newOperand(member)
			}
			return true
		})
	}
	return o
}

// comparePasses is the number of times that a list or an object is scanned when it is compared or
// searched.
const comparePasses = 2

// elementSteps is the number of steps for advancing to the next element or member.
const elementSteps = 8

// equals reports whether a value of an event is equal to the operand. It takes the steps for reading
// the value, and reports false if the meter stops.
func (o *operand) equals(m *meter.Meter, r *gjson.Result) bool {
	switch {
	case o.kind != r.Type:
		return false
	case o.kind == gjson.String:
		return o.text == r.Str
	case o.kind == gjson.Number:
		if len(r.Raw) > plainDigits && m.UseBytes(len(r.Raw)) != nil {
			return false
		}
		return o.number.compare(numberOf(r)) == 0
	case o.kind != gjson.JSON:
		return true // null, true or false, which are types of gjson
	case m.UseBytes(comparePasses*len(r.Raw)) != nil:
		return false
	case o.isArray:
		return r.IsArray() && o.equalsArray(m, r)
	}
	return r.IsObject() && o.equalsObject(m, r)
}

func (o *operand) equalsArray(m *meter.Meter, r *gjson.Result) bool {
	i, same := 0, true
	r.ForEach(func(_, element gjson.Result) bool {
		same = m.Use(elementSteps) == nil && i < len(o.elements) && o.elements[i].equals(m, &element)
		i++
		return same
	})
	return same && i == len(o.elements)
}

func (o *operand) equalsObject(m *meter.Meter, r *gjson.Result) bool {
	seen, same := make(map[string]bool, len(o.members)), true
	r.ForEach(func(name, member gjson.Result) bool {
		if m.Use(elementSteps) != nil {
			return false
		}
		if seen[name.Str] {
			return true
		}
		seen[name.Str] = true
		wanted, ok := o.members[name.Str]
		same = ok && wanted.equals(m, &member)
		return same
	})
	return same && len(seen) == len(o.members)
}

// isIn reports whether a value equals an operand of the list.
func isIn(m *meter.Meter, list []operand, r *gjson.Result) bool {
	const comparisonsPerStep = 4 // comparisons that fail at once, because the types or texts differ
	if m.Use(len(list)/comparisonsPerStep) != nil {
		return false
	}
	for i := range list {
		if list[i].equals(m, r) {
			return true
		}
	}
	return false
}

// isOrdered reports whether the operand is a number or a string, the types that have an order.
func (o *operand) isOrdered() bool { return o.kind == gjson.Number || o.kind == gjson.String }

// order compares a value with the operand: numbers with numbers, and strings with strings by code
// point. ok is false for all other types.
func (o *operand) order(m *meter.Meter, r *gjson.Result) (order int, ok bool) {
	if o.kind != r.Type || !o.isOrdered() {
		return 0, false
	}
	if o.kind == gjson.Number {
		if len(r.Raw) > plainDigits && m.UseBytes(len(r.Raw)) != nil {
			return 0, false
		}
		value := numberOf(r)
		return value.compare(o.number), true
	}
	switch {
	case r.Str < o.text:
		return -1, true
	case r.Str > o.text:
		return 1, true
	}
	return 0, true
}
