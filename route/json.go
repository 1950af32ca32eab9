package route

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/filter"
	"github.com/eventhook/eventhook/internal/meter"
)

// messageOf returns the text of an error for users.
func messageOf(err error) string {
	if e, ok := errors.AsType[*eventhook.Error](err); ok {
		return e.Message
	}
	return err.Error()
}

// celValue converts JSON to CEL's types. A whole number becomes int64, or uint64 if
// it is too large for int64. Every other number becomes float64, as does a number
// below 2^53 that is written with a point or an exponent. If an object repeats a
// name, the first member counts, as in paths. The error is errTooManyValues or the
// meter's.
func celValue(m *meter.Meter, r gjson.Result) (any, error) {
	d := decoder{meter: m, valuesLeft: maxValues}
	v := d.value(r)
	if err := m.Err(); err != nil {
		return nil, err
	}
	if d.valuesLeft < 0 {
		return nil, errTooManyValues
	}
	return v, nil
}

// maxValues limits the elements and members that an expression can read. Each takes up to about 100
// bytes of memory.
const maxValues = 250_000

var errTooManyValues = fmt.Errorf("the body has more than %d elements and members, which is more than expressions can read", maxValues)

// valueSteps is the number of steps for decoding an element or a member.
const valueSteps = 12

// decodePasses is how often a container is scanned to decode it.
const decodePasses = 2

// decoder decodes JSON until it has met too many values or the meter stops.
type decoder struct {
	meter      *meter.Meter
	valuesLeft int // number of values that may still be decoded
}

// isFull counts a value and reports whether the decoder must stop.
func (d *decoder) isFull() bool {
	d.valuesLeft--
	return d.valuesLeft < 0 || d.meter.Use(valueSteps) != nil
}

func (d *decoder) value(r gjson.Result) any {
	if r.Type == gjson.JSON && d.meter.UseBytes(decodePasses*len(r.Raw)) != nil {
		return nil
	}
	switch {
	case r.Type == gjson.String:
		return r.Str
	case r.Type == gjson.Number:
		return nativeNumber(r)
	case r.Type == gjson.True, r.Type == gjson.False:
		return r.Type == gjson.True
	case r.IsArray():
		list := []any{}
		r.ForEach(func(_, element gjson.Result) bool {
			list = append(list, d.value(element))
			return !d.isFull()
		})
		return list
	case r.IsObject():
		members := map[string]any{}
		r.ForEach(func(name, member gjson.Result) bool {
			if _, again := members[name.Str]; !again {
				members[name.Str] = d.value(member)
			}
			return !d.isFull()
		})
		return members
	}
	return nil
}

func nativeNumber(r gjson.Result) any {
	text := r.Raw
	if strings.ContainsAny(text, ".eE") {
		if math.Abs(r.Num) < 1<<53 {
			return r.Num
		}
		text = filter.Integer(text)
	}
	if i, err := strconv.ParseInt(text, 10, 64); err == nil {
		return i
	}
	if u, err := strconv.ParseUint(text, 10, 64); err == nil {
		return u
	}
	return r.Num
}
