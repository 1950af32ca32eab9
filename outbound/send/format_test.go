package send_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
)

// A publisher, or the sender of a webhook that a route publishes, cannot notify a channel, and
// cannot hide the destination of a link.
func TestMessagesHaveNoMarkupOfTheEvent(t *testing.T) {
	const attack = "<!channel> <!here> <@U1> <https://evil.example|your bank> [your bank](https://evil.example) ``` *"
	receiver := newSink(t, answer(http.StatusOK, "ok"))
	e := newEvent()
	e.EventType, e.CorrelationID = "a."+attack, attack
	e.Envelope.Source, e.Envelope.Category = attack, attack
	e.Envelope.Scope = json.RawMessage(`"` + attack + `"`)
	e.Body = []byte(`{"message":"` + attack + `","` + attack + `":1}`)
	for format, forbidden := range map[string]string{eventhook.FormatSlack: "<>", eventhook.FormatTeams: "]("} {
		s := newSubscription(receiver.URL)
		s.Format = format
		if a := newSender(time.Now).Send(t.Context(), sendingOf(s, e, 1)); !a.Succeeded() {
			t.Fatalf("%s: got %+v", format, a)
		}
		var body any
		if err := json.Unmarshal(receiver.last(t).body, &body); err != nil {
			t.Fatal(err)
		}
		eachText(body, func(text string, isPlain bool) {
			isLink := strings.Contains(text, forbidden) || format == eventhook.FormatSlack && strings.ContainsAny(text, forbidden)
			if !isPlain && isLink || strings.HasPrefix(text, "```") && strings.Count(text, "```") != 2 {
				t.Errorf("%s: the text %q has markup of the event", format, text)
			}
		})
	}
}

// eachText calls f with each text of a JSON value. isPlain reports whether the product reads no
// markup in it.
func eachText(value any, f func(text string, isPlain bool)) {
	switch x := value.(type) {
	case []any:
		for _, element := range x {
			eachText(element, f)
		}
	case map[string]any:
		for _, member := range x {
			if text, ok := member.(string); ok {
				f(text, x["type"] == "plain_text")
				continue
			}
			eachText(member, f)
		}
	}
}
