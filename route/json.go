package route

import (
	"errors"
	"math"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/filter"
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
func native(r gjson.Result) any {
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
			list = append(list, native(element))
			return true
		})
		return list
	case r.IsObject():
		members := map[string]any{}
		r.ForEach(func(name, member gjson.Result) bool {
			if _, again := members[name.Str]; !again {
				members[name.Str] = native(member)
			}
			return true
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
