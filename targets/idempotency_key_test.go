package targets

import (
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/payload"
)

func TestKeysOfEventsThatAreProcessedAgainAreNew(t *testing.T) {
	again := eventhook.NewID[eventhook.Event](time.Unix(1, 0))
	v := payload.New(nil, payload.HeaderBlock(nil), "application/json", []byte(`{"id":"42"}`))
	key, err := IdempotencyKeySettings{IdempotencyKeyPath: "body.id", IdempotencyKeyPrefix: "stripe:"}.compile()
	if err != nil {
		t.Fatal(err)
	}
	for claim, c := range map[string]struct {
		event eventhook.Event
		want  string
	}{
		"a first event":        {eventhook.Event{ID: again}, "stripe:42"},
		"an event of an event": {eventhook.Event{ID: again, ReprocessedFrom: eventhook.EventID{1}}, "stripe:42:" + again.String()},
	} {
		if got := key.ownKeyOf(&c.event, v); got != c.want {
			t.Errorf("%s: key %q, want %q", claim, got, c.want)
		}
	}
}
