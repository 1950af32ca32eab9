package route

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/tidwall/gjson"

	"github.com/eventhook/eventhook"
)

// checkJSON says what is wrong with a filter as JSON, "" if nothing.
func checkJSON(text []byte) string {
	if len(text) > mostFilterBytes {
		return fmt.Sprintf("is %d bytes long, at most %d are allowed", len(text), mostFilterBytes)
	}
	err := json.Unmarshal(text, new(json.RawMessage))
	if at, ok := errors.AsType[*json.SyntaxError](err); ok {
		before := text[:min(max(int(at.Offset)-1, 0), len(text))]
		return fmt.Sprintf("is not JSON: line %d, column %d: %s", bytes.Count(before, []byte("\n"))+1, len(before)-bytes.LastIndexByte(before, '\n'), at)
	}
	if err != nil {
		return "is not JSON"
	}
	return ""
}

// messageOf is what an error says to users.
func messageOf(err error) string {
	if e, ok := errors.AsType[*eventhook.Error](err); ok {
		return e.Message
	}
	return err.Error()
}

// native is JSON as expressions take it: whole numbers as int64 or, if they
// only fit so, as uint64; others as float64. Of members with one name the
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
	if i, err := strconv.ParseInt(r.Raw, 10, 64); err == nil {
		return i
	}
	if u, err := strconv.ParseUint(r.Raw, 10, 64); err == nil {
		return u
	}
	return r.Num
}
