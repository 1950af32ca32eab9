package send

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/eventhook/eventhook"
)

// Limits of PagerDuty's Events API v2 in characters (developer.pagerduty.com, Send an alert
// event). An event has at most 512 KB.
const (
	maxPagerSummary = 1024
	maxDedupKey     = 255
	maxPagerDetails = 256 << 10 // bytes
)

// Values of members of the Events API. The first one is the default.
var (
	pagerActions    = []string{"trigger", "acknowledge", "resolve"}
	pagerSeverities = []string{"error", "critical", "warning", "info"}
)

// pagerMembers are the members of the data that become members of the alert.
type pagerMembers struct {
	RoutingKey  textMember `json:"routing_key"`
	EventAction textMember `json:"event_action"`
	DedupKey    textMember `json:"dedup_key"`
	Severity    textMember `json:"severity"`
	Component   textMember `json:"component"`
	Group       textMember `json:"group"`
}

// pagerDutyEvent returns an alert event for PagerDuty's Events API v2. The routing key is
// key, the auth_header of the subscription, or else the member routing_key of the data.
func pagerDutyEvent(e *eventhook.Event, key eventhook.Secret) []byte {
	type payload struct {
		Summary   string          `json:"summary"`
		Source    string          `json:"source"`
		Severity  string          `json:"severity"`
		Timestamp string          `json:"timestamp"`
		Class     string          `json:"class"`
		Component string          `json:"component,omitempty"`
		Group     string          `json:"group,omitempty"`
		Details   json.RawMessage `json:"custom_details,omitempty"`
	}
	var data pagerMembers
	_ = json.Unmarshal(e.Body, &data) // data that is not an object has no members
	envelope := envelopeOf(e)
	title, summary := summaryOf(e)
	if summary != "" {
		title += ": " + summary
	}
	return encode(struct {
		RoutingKey  string  `json:"routing_key"`
		EventAction string  `json:"event_action"`
		DedupKey    string  `json:"dedup_key"`
		Client      string  `json:"client"`
		Payload     payload `json:"payload"`
	}{
		cmp.Or(key.Reveal(), string(data.RoutingKey)), oneOf(data.EventAction, pagerActions),
		shortened(cmp.Or(string(data.DedupKey), e.CorrelationID, e.ID.String()), maxDedupKey), "Eventhook",
		payload{
			shortened(title, maxPagerSummary), cmp.Or(envelope.Source, textOf(envelope.Scope), e.About().String()),
			oneOf(data.Severity, pagerSeverities),
			e.ID.Time().Format(timeLayout), e.EventType, string(data.Component),
			cmp.Or(string(data.Group), envelope.Category), pagerDetails(e),
		},
	})
}

// pagerDetails returns the data of an event as an object. Data that is too large is cut off.
func pagerDetails(e *eventhook.Event) json.RawMessage {
	var members map[string]json.RawMessage
	if len(e.Body) <= maxPagerDetails && json.Unmarshal(e.Body, &members) == nil && members != nil {
		delete(members, "routing_key")
		return encode(members)
	}
	return encode(map[string]string{"event_id": e.ID.String(), "data": shortenedBytes(detailsOf(e), maxPagerDetails)})
}

// oneOf returns a value if it is allowed, and else the first allowed value.
func oneOf(value textMember, allowed []string) string {
	if slices.Contains(allowed, string(value)) {
		return string(value)
	}
	return allowed[0]
}
