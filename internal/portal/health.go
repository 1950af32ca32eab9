package portal

import (
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strings"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/web"
)

// health is the state of an endpoint in words for a customer.
type health struct {
	Kind, Word string // as web.StatusAs takes them
	Text       string // what happens to events, and what to do
	// Recovers is true if the customer can enable the endpoint again, which also sends what was missed.
	Recovers bool
}

// outages says what disabled an endpoint, by the disabled_by of the API.
var outages = map[string]health{
	"failures": {"failed", "stopped", "Your endpoint failed too often, so deliveries have stopped. " +
		"New events are kept and sent after the recovery. Repair the endpoint, then recover it.", true},
	"gone": {"failed", "stopped", "Your endpoint answered 410 Gone, which means that it wants no events. " +
		"No new events are kept. Enable it to receive events again.", true},
	"tenant": {"muted", "off", "The sender has turned all endpoints off.", false},
}

// healthOf returns the state of an endpoint.
func healthOf(s client.Subscription) health {
	switch {
	case s.SecretsLost != nil && *s.SecretsLost && len(s.TargetLabels) > 0:
		return health{"failed", "incomplete", "The address of this endpoint was lost. Nothing is sent until the sender sets it again.", false}
	case s.SecretsLost != nil && *s.SecretsLost:
		return health{"failed", "incomplete",
			"The address of this endpoint was lost. Nothing is sent until you set it again: edit the endpoint.", false}
	case s.Status == client.SubscriptionStatusDisabled:
		return disabled(s)
	case s.Status == client.SubscriptionStatusPaused:
		return health{"waiting", "paused", "Deliveries are held, and are sent when you resume the endpoint.", false}
	case s.Recovery.Running != nil:
		return health{"running", "recovering",
			"Your endpoint answers again. The deliveries that it missed are being sent.", false}
	case s.Circuit != nil && s.Circuit.State == "open":
		return health{"warning", "not answering", "Your endpoint fails, so that new events wait. " +
			"It is tried again regularly; as soon as it answers, all that wait are sent.", true}
	case s.Circuit != nil && s.Circuit.State == "half_open":
		return health{"running", "checking",
			"Your endpoint failed. One delivery is being sent to find out whether it answers again.", false}
	}
	return health{"ok", "active", "Events are delivered as they happen.", false}
}

func disabled(s client.Subscription) health {
	if s.DisabledBy != nil {
		if h, ok := outages[*s.DisabledBy]; ok {
			return h
		}
	}
	return health{"muted", "off", "No events are delivered or kept. Enable the endpoint to receive new events.", true}
}

// deliveryState is a status of deliveries with its words; Title begins with a capital.
type deliveryState struct{ Status, Kind, Word, Title string }

// deliveryStates are the statuses of deliveries.
var deliveryStates = []deliveryState{{"success", "ok", "delivered", "Delivered"}, {"pending", "waiting", "waiting", "Waiting"},
	{"acquired", "running", "sending", "Sending"}, {"failed", "warning", "retrying", "Retrying"}, {"dead", "failed", "failed", "Failed"}}

func stateOf(status client.DeliveryStatus) deliveryState {
	if i := slices.IndexFunc(deliveryStates, func(s deliveryState) bool { return s.Status == string(status) }); i >= 0 {
		return deliveryStates[i]
	}
	return deliveryState{string(status), "muted", string(status), string(status)}
}

func deliveryStatus(status client.DeliveryStatus) template.HTML {
	s := stateOf(status)
	return web.StatusAs(s.Kind, s.Word)
}

// responseOf returns the response of the endpoint in a delivery's last attempt: the status, else what
// failed; "" before the first attempt.
func responseOf(d client.Delivery) string {
	switch {
	case d.StatusCode != nil:
		return strings.TrimSpace(fmt.Sprint(*d.StatusCode, " ", http.StatusText(int(*d.StatusCode))))
	case d.LastError != nil:
		return *d.LastError
	}
	return ""
}

// cellOf returns the class and the title of a delivery's cell in the health strip.
func cellOf(d client.Delivery) map[string]string {
	s := stateOf(d.Status)
	return map[string]string{"Kind": s.Kind, "Title": d.EventType + " " + s.Word}
}
