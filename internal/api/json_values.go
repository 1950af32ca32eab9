package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eventhook/eventhook"
)

// Limits of the values in a body. A value of two bytes, such as an empty object, takes
// hundreds of bytes when it is decoded, and more when it has a fault. Members that are
// stored unparsed do not count.
const (
	maxValues          = 10_000 // of a document
	maxFrameworkValues = 250    // of a body that the framework decodes
)

// hasMoreValues reports whether JSON contains more than limit values, approximately.
func hasMoreValues(raw []byte, limit int) bool {
	for len(raw) > 0 {
		switch raw[0] {
		case '"':
			raw = raw[stringLength(raw):]
			continue
		case ',', '{', '[':
			if limit--; limit < 0 {
				return true
			}
		}
		raw = raw[1:]
	}
	return false
}

func tooManyValues(limit int) string { return fmt.Sprintf("has more than %d values", limit) }

// boundedJSON returns the formats of the framework with a limit of values for bodies
// that the framework decodes, and with a check that null is only where the schema
// allows it.
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

// checkValues returns a fault if a document has too many values. The document must
// not be decoded further then.
func checkValues(raw []byte) (faults eventhook.Faults) {
	if hasMoreValues(raw, maxValues) {
		faults.Add("body", "%s", tooManyValues(maxValues))
	}
	return faults
}
