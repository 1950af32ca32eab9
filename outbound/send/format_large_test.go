package send

import (
	"runtime"
	"strings"
	"testing"

	"github.com/eventhook/eventhook"
)

func TestShortened(t *testing.T) {
	for _, c := range []struct {
		text string
		n    int
		want string
	}{
		{"", 1, ""}, {"é", 1, "é"}, {"éa", 1, "…"}, {"aéb", 3, "aéb"}, {"aébc", 3, "aé…"}, {strings.Repeat("é", 1000), 3, "éé…"},
	} {
		if got := shortened(c.text, c.n); got != c.want {
			t.Errorf("%.10q to %d: got %q, want %q", c.text, c.n, got, c.want)
		}
	}
}

// A member of the data that no message shows, or of which it shows the beginning, must not cost
// many times its size at each attempt.
func TestMessagesOfLargeDataAreCheap(t *testing.T) {
	const size = 200_000
	messages := map[string]func(*eventhook.Event) []byte{
		"slack": slackMessage, "teams": teamsMessage,
		"pagerduty": func(e *eventhook.Event) []byte { return pagerDutyEvent(e, eventhook.Secret{}) },
	}
	for format, compose := range messages {
		for claim, data := range map[string]string{
			"a long text":   `{"summary":"` + strings.Repeat("&é", size/3) + `"}`,
			"a list inside": `{"summary":[` + strings.Repeat("1,", size/2) + `1],"group":[` + strings.Repeat("1,", size/2) + `1]}`,
			"a deep list":   strings.Repeat("[", 9000) + strings.Repeat("]", 9000),
			"deep objects":  strings.Repeat(`{"a":`, 5000) + "1" + strings.Repeat("}", 5000),
		} {
			e := &eventhook.Event{EventType: "a.b", Payload: eventhook.Payload{Body: []byte(data)}}
			if bytes := allocated(func() { compose(e) }); bytes > 16*size {
				t.Errorf("%s with %s: composing takes %d bytes of memory, want at most %d", format, claim, bytes, 16*size)
			}
		}
	}
}

// allocated returns how many bytes f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
