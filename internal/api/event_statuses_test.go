package api_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
)

// TestEnumsListAllEventStatuses compares every enum of event statuses in the document
// with the statuses of the root package.
func TestEnumsListAllEventStatuses(t *testing.T) {
	r := setUp(t)
	raw, err := json.Marshal(r.openAPI)
	r.must(err)
	var doc any
	r.must(json.Unmarshal(raw, &doc))
	seen := map[string]int{}
	reprocessable := slices.Compact(slices.Sorted(slices.Values(slices.Concat(eventhook.Reprocessable, eventhook.FinalEvents))))
	for _, enum := range enumsWith(doc, string(eventhook.EventUnrouted)) {
		switch {
		case slices.Equal(enum, eventhook.EventStatuses):
			seen["all"]++
		case slices.Equal(slices.Sorted(slices.Values(enum)), reprocessable):
			seen["reprocessable"]++
		default:
			t.Errorf("an enum has %v, want %v or %v", enum, eventhook.EventStatuses, reprocessable)
		}
	}
	// A list, a list of all tenants, a single event, the filters of both lists and of the
	// stream; and the filter of reprocess.
	if diff := cmp.Diff(map[string]int{"all": 6, "reprocessable": 1}, seen); diff != "" {
		t.Errorf("enums (-want +got):\n%s", diff)
	}
}

// enumsWith returns the enums of a document that contain a value.
func enumsWith(doc any, member string) (all [][]eventhook.EventStatus) {
	switch doc := doc.(type) {
	case []any:
		for _, v := range doc {
			all = append(all, enumsWith(v, member)...)
		}
	case map[string]any:
		for name, v := range doc {
			all = append(all, enumsWith(v, member)...)
			list, isList := v.([]any)
			if name != "enum" || !isList || !slices.Contains(list, any(member)) {
				continue
			}
			var enum []eventhook.EventStatus
			for _, s := range list {
				enum = append(enum, eventhook.EventStatus(s.(string)))
			}
			all = append(all, enum)
		}
	}
	return all
}
