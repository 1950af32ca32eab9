package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eventhook/eventhook"
)

// A value of two bytes, such as an empty object, takes hundreds of bytes when it
// is decoded, and more when it is wrong. So the values of a body are bounded,
// apart from members that are passed on as they are.
const (
	maxValues          = 10_000 // of a document
	maxFrameworkValues = 250    // of a body that the framework decodes, or of a document around one member
)

// hasMoreValues reports whether JSON holds more than so many values, about.
func hasMoreValues(raw []byte, most int) bool {
	for len(raw) > 0 {
		switch raw[0] {
		case '"':
			raw = raw[stringLength(raw):]
			continue
		case ',', '{', '[':
			if most--; most < 0 {
				return true
			}
		}
		raw = raw[1:]
	}
	return false
}

func tooManyValues(most int) string { return fmt.Sprintf("has more than %d values", most) }

// boundedJSON are the framework's formats, with a bound of what it decodes itself.
// No null stands in such a body where its schema forbids it.
func (s *server) boundedJSON(formats map[string]huma.Format) map[string]huma.Format {
	bounded := maps.Clone(formats)
	for _, name := range []string{"application/json", "json"} {
		format := bounded[name]
		format.Unmarshal = s.unmarshalBounded
		bounded[name] = format
	}
	return bounded
}

var errTooManyValues = errors.New(tooManyValues(maxFrameworkValues))

func (s *server) unmarshalBounded(data []byte, v any) error {
	if _, isDocument := v.(json.Unmarshaler); !isDocument && hasMoreValues(data, maxFrameworkValues) {
		return errTooManyValues
	}
	if err := json.Unmarshal(data, v); err != nil {
		return err
	}
	return s.checkDecoded(data, v)
}

// checkValues refuses a document with too many values; nothing else may be
// decoded of it then.
func checkValues(raw []byte) (faults eventhook.Faults) {
	if hasMoreValues(raw, maxValues) {
		faults.Add("body", "%s", tooManyValues(maxValues))
	}
	return faults
}
