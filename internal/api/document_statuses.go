package api

import (
	"bytes"
	"encoding/json"

	"github.com/eventhook/eventhook"
)

// statusAt is the location of the statuses in the filter of a bulk operation.
const statusAt = "body.filter.status"

// readStatuses is read for a document whose filter.status is a list. A client may send one
// status as a string instead.
func (d document[T]) readStatuses(s *server) (v T, faults eventhook.Faults) {
	if faults = checkValues(d.raw); faults != nil {
		return v, faults
	}
	listed, isString := listStatus(d.raw)
	v, faults = document[T]{listed}.readShape(s)
	for i := range faults {
		if isString && faults[i].Location == statusAt+"[0]" {
			faults[i].Location = statusAt
		}
	}
	return v, join(checkTexts(d.raw), faults)
}

// listStatus returns a document with the string at filter.status in a list, and whether there
// is a string. A document without one is returned unchanged.
func listStatus(raw json.RawMessage) (listed json.RawMessage, isString bool) {
	var body, filter map[string]json.RawMessage
	if json.Unmarshal(raw, &body) != nil || json.Unmarshal(body["filter"], &filter) != nil ||
		!bytes.HasPrefix(filter["status"], []byte(`"`)) {
		return raw, false
	}
	filter["status"] = bytes.Join([][]byte{[]byte("["), filter["status"], []byte("]")}, nil)
	changed, err := json.Marshal(filter)
	if err != nil {
		return raw, false
	}
	body["filter"] = changed
	listed, err = json.Marshal(body)
	return listed, err == nil
}
