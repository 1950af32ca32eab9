package eventhook_test

import (
	"testing"
	"time"

	"github.com/eventhook/eventhook"
)

func TestSpanOfAnEvent(t *testing.T) {
	id, none := eventhook.NewID[eventhook.Event](time.UnixMilli(0)), eventhook.SpanID{}
	system := func(parent string) eventhook.Event {
		return eventhook.Event{ID: id, Origin: eventhook.OriginSystem, Envelope: &eventhook.Envelope{ParentSpan: parent}}
	}
	for claim, c := range map[string]struct {
		of   eventhook.Event
		want eventhook.SpanID
	}{
		"a webhook":                    {eventhook.Event{ID: id}, id.SpanID()},
		"a published event":            {eventhook.Event{ID: id, Origin: eventhook.OriginAPI, Envelope: &eventhook.Envelope{}}, id.SpanID()},
		"a system event":               {system("00f067aa0ba902b7"), eventhook.SpanID{0, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 0x02, 0xb7}},
		"a system event without cause": {system(""), none},
		"a system event, invalid":      {system("00f067aa0ba902b"), none},
		"a system event, old":          {eventhook.Event{ID: id, Origin: eventhook.OriginSystem}, none},
	} {
		if got := c.of.Span(); got != c.want {
			t.Errorf("%s: got %x, want %x", claim, got, c.want)
		}
	}
	if got := none.String(); got != "" {
		t.Errorf("the zero span id is %q, want no text", got)
	}
}
