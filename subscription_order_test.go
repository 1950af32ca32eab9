package eventhook_test

import (
	"strings"
	"testing"

	"github.com/eventhook/eventhook"
)

func TestOrderedByIsAPathOfTheEvent(t *testing.T) {
	for _, path := range []string{"", "data", "data.customer_id", "data.items.0.id", "scope", "actor.id", "metadata.region", "event_type", "source", "correlation_id"} {
		if faults := (eventhook.SubscriptionSettings{OrderedBy: path}).Validate(); len(faults) > 0 {
			t.Errorf("%q: got %v, want no fault", path, faults)
		}
	}
	for path, want := range map[string]string{
		"customer_id": "data.<path>", "body.customer_id": "data.<path>", "event_id": "data.<path>", "event_type.x": "has no members",
		"data.": "must be a path", "data..id": "must be a path", "data.a b": "must be a path", "data.*": "must be a path",
		"data." + strings.Repeat("x", 256): "at most 256",
	} {
		faults := eventhook.SubscriptionSettings{OrderedBy: path}.Validate()
		if len(faults) != 1 || faults[0].Location != "ordered_by" || !strings.Contains(faults[0].Message, want) {
			t.Errorf("%.40q: got %v, want one fault with %q", path, faults, want)
		}
	}
}
