package eventhook_test

import (
	"strings"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
)

func TestTraceFallsBackToTheEventID(t *testing.T) {
	id := eventhook.NewID[eventhook.Event](time.UnixMilli(0))
	own := strings.ReplaceAll(id.String(), "-", "")
	for given, want := range map[string]string{
		"0af7651916cd43dd8448eb211c80319c": "0af7651916cd43dd8448eb211c80319c",
		"":                                 own,
		"0af7651916cd43dd8448eb211c80319":  own,
		strings.Repeat("x", 32):            own,
		strings.Repeat("0", 32):            own,
	} {
		if got := (&eventhook.Event{ID: id, TraceID: given}).Trace(); got != want {
			t.Errorf("Trace with the trace id %q: got %s, want %s", given, got, want)
		}
	}
}
