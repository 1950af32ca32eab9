package ingest

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	neturl "net/url"
	"regexp"
)

// Handshakes that are told by their body.

// maxHandshakeBytes bounds what is read as a handshake. A longer body is an
// event's.
const maxHandshakeBytes = 16 << 10

// echoSlack: url_verification.
func echoSlack(c challenge) (*reply, *refused) {
	body := object(c.Body)
	if kind, _ := textOf(body["type"]); kind != "url_verification" {
		return nil, nil
	}
	text, ok := textOf(body["challenge"])
	if !ok || !isEcho(text) {
		return nil, malformed("the challenge is absent, too long or not plain text")
	}
	return textReply(text), nil
}

// echoOnlyMember: monday. An event has other members.
func echoOnlyMember(c challenge) (*reply, *refused) {
	text, found, ok := onlyMember(c.Body, "challenge")
	switch {
	case !found:
		return nil, nil
	case !ok || !isEcho(text):
		return nil, malformed("the challenge is absent, too long or not plain text")
	}
	return jsonReply(map[string]string{"challenge": text}), nil
}

// answerPing: Discord has two kinds of PING. An event of its webhook events has
// the type of the other PING, and a member event.
func answerPing(c challenge) (*reply, *refused) {
	body := object(c.Body)
	isEvent := body["event"] != nil || body["data"] != nil
	switch kind := string(body["type"]); {
	case isEvent:
	case kind == "0": // of webhook events
		return &reply{status: http.StatusNoContent, contentType: "application/json"}, nil
	case kind == "1" && body["token"] != nil: // of interactions
		return &reply{status: http.StatusOK, contentType: "application/json", body: `{"type":1}`}, nil
	}
	return nil, nil
}

// acceptIntent: Xero sends no events, several times and some of them wrongly
// signed, to see that we look.
func acceptIntent(c challenge) (*reply, *refused) {
	if !isEmptyList(object(c.Body)["events"]) {
		return nil, nil
	}
	return emptyReply(), nil
}

// validateGrid: Azure Event Grid. Its events have another aeg-event-type.
func validateGrid(c challenge) (*reply, *refused) {
	if kind, _, _ := c.header("Aeg-Event-Type"); kind != "SubscriptionValidation" {
		return nil, nil
	}
	var list []json.RawMessage
	if len(c.Body) > maxHandshakeBytes || json.Unmarshal(c.Body, &list) != nil || len(list) != 1 {
		return nil, malformed("the body is not one validation event")
	}
	event := object(list[0])
	kind, _ := textOf(event["eventType"])
	code, ok := textOf(object(event["data"])["validationCode"])
	if kind != "Microsoft.EventGrid.SubscriptionValidationEvent" || !ok || !isEcho(code) {
		return nil, malformed("the validation code is absent, too long or not plain text")
	}
	return jsonReply(map[string]string{"validationResponse": code}), nil
}

// adyenTest: no notifications, and so none that is signed.
func adyenTest(c challenge) (*reply, *refused) {
	if !isEmptyList(object(c.Body)["notificationItems"]) {
		return nil, nil
	}
	return textReply("[accepted]"), nil
}

var digits = regexp.MustCompile(`^[0-9]{1,20}$`)

// acceptWooPing: WooCommerce sends an unsigned form when a webhook is saved.
// Its events are signed, and JSON.
func acceptWooPing(c challenge) (*reply, *refused) {
	const form = "application/x-www-form-urlencoded"
	header := c.Header
	if mediaType(header.Get("Content-Type")) != form || header.Get("X-WC-Webhook-Signature") != "" || len(c.Body) > maxHandshakeBytes {
		return nil, nil
	}
	fields, err := neturl.ParseQuery(string(c.Body))
	if id, ok := only(fields["webhook_id"]); err != nil || len(fields) != 1 || !ok || !digits.MatchString(id) {
		return nil, nil
	}
	return emptyReply(), nil
}

// object is the members of a JSON object; nil if the text is anything else, is
// too long for a handshake, or has a name twice, which different readers read
// differently.
func object(text []byte) map[string]json.RawMessage {
	if len(text) > maxHandshakeBytes {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(text))
	if start, err := d.Token(); err != nil || start != json.Delim('{') {
		return nil
	}
	members := map[string]json.RawMessage{}
	for d.More() {
		name, err := d.Token()
		key, isName := name.(string)
		var value json.RawMessage
		if err != nil || !isName || members[key] != nil || d.Decode(&value) != nil {
			return nil
		}
		members[key] = value
	}
	if _, err := d.Token(); err != nil {
		return nil // it does not end
	}
	if _, err := d.Token(); err != io.EOF {
		return nil // or goes on
	}
	return members
}

// onlyMember is the member of a JSON object that has no other. ok says that it
// is a text.
func onlyMember(body []byte, name string) (text string, found, ok bool) {
	members := object(body)
	value, found := members[name]
	if !found || len(members) != 1 {
		return "", false, false
	}
	text, ok = textOf(value)
	return text, true, ok
}

// textOf is a JSON string's text.
func textOf(value json.RawMessage) (string, bool) {
	var text *string
	if json.Unmarshal(value, &text) != nil || text == nil {
		return "", false
	}
	return *text, true
}

func isEmptyList(value json.RawMessage) bool {
	var list []json.RawMessage
	return json.Unmarshal(value, &list) == nil && list != nil && len(list) == 0
}
