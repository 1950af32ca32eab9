package ingest

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	neturl "net/url"
	"regexp"
)

// Handshakes that are recognized by their body.

// maxHandshakeBytes is the maximum body size of a handshake. A larger body is an event.
const maxHandshakeBytes = 16 << 10

// echoSlack answers Slack's url_verification with its challenge.
func echoSlack(in received) (*reply, *refusal) {
	body := object(in.Body)
	if kind, _ := textOf(body["type"]); kind != "url_verification" {
		return nil, nil
	}
	text, ok := textOf(body["challenge"])
	if !ok || !isEcho(text) {
		return nil, malformed("the challenge is missing, too long or not plain text")
	}
	return textReply(text), nil
}

// echoOnlyMember answers monday, which sends an object with a challenge and no other member.
// Its events have other members.
func echoOnlyMember(in received) (*reply, *refusal) {
	text, found, ok := onlyMember(in.Body, "challenge")
	switch {
	case !found:
		return nil, nil
	case !ok || !isEcho(text):
		return nil, malformed("the challenge is missing, too long or not plain text")
	}
	return jsonReply(map[string]string{"challenge": text}), nil
}

// answerPing answers Discord's PING, which exists for webhook events (type 0) and for
// interactions (type 1). A webhook event has type 1, too, but also a member event.
func answerPing(in received) (*reply, *refusal) {
	body := object(in.Body)
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

// acceptIntent answers Xero's intent to receive. Xero sends requests without events, some of
// them with a wrong signature, to check that the receiver verifies signatures.
func acceptIntent(in received) (*reply, *refusal) {
	if !isEmptyList(object(in.Body)["events"]) {
		return nil, nil
	}
	return emptyReply(), nil
}

// validateGrid answers the subscription validation of Azure Event Grid. Events have another
// Aeg-Event-Type.
func validateGrid(in received) (*reply, *refusal) {
	if kind, _, _ := in.header("Aeg-Event-Type"); kind != "SubscriptionValidation" {
		return nil, nil
	}
	var list []json.RawMessage
	if len(in.Body) > maxHandshakeBytes || json.Unmarshal(in.Body, &list) != nil || len(list) != 1 {
		return nil, malformed("the body is not one validation event")
	}
	event := object(list[0])
	kind, _ := textOf(event["eventType"])
	code, ok := textOf(object(event["data"])["validationCode"])
	if kind != "Microsoft.EventGrid.SubscriptionValidationEvent" || !ok || !isEcho(code) {
		return nil, malformed("the validation code is missing, too long or not plain text")
	}
	return jsonReply(map[string]string{"validationResponse": code}), nil
}

// adyenTest answers Adyen's test request, which has an empty list of notifications and so
// no signature.
func adyenTest(in received) (*reply, *refusal) {
	if !isEmptyList(object(in.Body)["notificationItems"]) {
		return nil, nil
	}
	return textReply("[accepted]"), nil
}

var digits = regexp.MustCompile(`^[0-9]{1,20}$`)

// acceptWooPing answers the unsigned form that WooCommerce sends when a webhook is saved.
// Events are signed JSON.
func acceptWooPing(in received) (*reply, *refusal) {
	const form = "application/x-www-form-urlencoded"
	header := in.Header
	if mediaType(header.Get("Content-Type")) != form || header.Get("X-WC-Webhook-Signature") != "" || len(in.Body) > maxHandshakeBytes {
		return nil, nil
	}
	fields, err := neturl.ParseQuery(string(in.Body))
	if id, ok := only(fields["webhook_id"]); err != nil || len(fields) != 1 || !ok || !digits.MatchString(id) {
		return nil, nil
	}
	return emptyReply(), nil
}

// object returns the members of a JSON object. It returns nil if the text is not a JSON
// object, is larger than maxHandshakeBytes, or repeats a name: parsers disagree about
// repeated names.
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
		return nil // the object is not closed
	}
	if _, err := d.Token(); err != io.EOF {
		return nil // there is text after the object
	}
	return members
}

// onlyMember returns the named member of a JSON object that has no other members. ok reports
// whether its value is a string.
func onlyMember(body []byte, name string) (text string, found, ok bool) {
	members := object(body)
	value, found := members[name]
	if !found || len(members) != 1 {
		return "", false, false
	}
	text, ok = textOf(value)
	return text, true, ok
}

// textOf returns the text of a JSON string.
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
