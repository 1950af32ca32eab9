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

// messageOf is what an error says to users.
func messageOf(err error) string {
	if e, ok := errors.AsType[*eventhook.Error](err); ok {
		return e.Message
	}
	return err.Error()
}

// native is JSON as expressions take it: whole numbers as int64 or, if they
// only fit so, as uint64; others, and those up to 2^53 that are written with a
// point or an exponent, as float64. Of members with one name the
// first counts, as it does in paths.
// The error is errTooMany or the meter's.
func native(m *meter.Meter, r gjson.Result) (any, error) {
	d := decoder{meter: m, left: mostValues}
	v := d.value(r)
	if err := m.Err(); err != nil {
		return nil, err
	}
	if d.left < 0 {
		return nil, errTooManyValues
	}
	return v, nil
}

// mostValues is how many elements and members expressions may hold, each of up
// to about 100 bytes of memory.
const mostValues = 250_000

var errTooManyValues = fmt.Errorf("the body has more than %d elements and members, which is more than expressions can read", mostValues)

// valueSteps are those of decoding an element or a member.
const valueSteps = 12

// decodeWork is how often, in time, a container is read to decode it.
const decodeWork = 2

// decoder decodes until it has met too many values or the meter stops.
type decoder struct {
	meter *meter.Meter
	left  int // values that may still be met
}

// isFull counts a value, and reports whether the decoder must stop.
func (d *decoder) isFull() bool {
	d.left--
	return d.left < 0 || d.meter.Use(valueSteps) != nil
}

func (d *decoder) value(r gjson.Result) any {
	if r.Type == gjson.JSON && d.meter.UseBytes(decodeWork*len(r.Raw)) != nil {
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
