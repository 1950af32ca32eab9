package ingest

import (
	"crypto/subtle"
	"strings"
)

// Handshakes that expect a parameter of the URL back.

// echoChallenge answers Dropbox and Nylas.
func echoChallenge(in received) (*reply, *refusal) {
	found, refused := in.parameters("challenge")
	if refused != nil {
		return nil, refused
	}
	return textReply(found["challenge"]), nil
}

// echoHub answers Meta. The verify token is a secret of the tenant, so that no other app can
// subscribe with the URL of the source.
func echoHub(in received) (*reply, *refusal) {
	text, refused := hubChallenge(in)
	if refused != nil {
		return nil, refused
	}
	return textReply(text), nil
}

// echoHubJSON answers Strava, which asks like Meta and expects JSON.
func echoHubJSON(in received) (*reply, *refusal) {
	text, refused := hubChallenge(in)
	if refused != nil {
		return nil, refused
	}
	return jsonReply(map[string]string{"hub.challenge": text}), nil
}

// hubChallenge checks mode and verify token and returns the challenge.
func hubChallenge(in received) (string, *refusal) {
	found, refused := in.parameters("hub.mode", "hub.challenge", "hub.verify_token")
	token := in.source.options["verify_token"]
	switch {
	case refused != nil:
		return "", refused
	case found["hub.mode"] != "subscribe":
		return "", malformed("hub.mode is not subscribe")
	case token == "" || subtle.ConstantTimeCompare([]byte(token), []byte(found["hub.verify_token"])) != 1:
		return "", unwanted("the verify_token does not match, or the source has none: set the option verify_token")
	}
	return found["hub.challenge"], nil
}

// confirmWebSub answers the verification of intent of a WebSub hub (W3C WebSub, section 5.3):
// the hub asks whether a subscription or its end is wanted, or reports that it was denied. A
// request for the configured topic is confirmed; another topic gets a 404, as the standard
// requires.
func confirmWebSub(in received) (*reply, *refusal) {
	found, refused := in.parameters("hub.mode", "hub.topic")
	topic, mode := in.source.options["topic"], found["hub.mode"]
	switch {
	case refused != nil:
		return nil, refused
	case topic != "" && topic != found["hub.topic"]:
		return nil, &refusal{outcome: OutcomeNotFound}
	case mode == "denied":
		return emptyReply(), nil
	case mode == "unsubscribe" && in.source.options["unsubscribe"] != "yes":
		return nil, &refusal{outcome: OutcomeNotFound} // anyone can make a hub ask
	case mode != "subscribe" && mode != "unsubscribe":
		return nil, malformed("hub.mode is unknown")
	}
	found, refused = in.parameters("hub.challenge")
	if refused != nil {
		return nil, refused
	}
	return textReply(found["hub.challenge"]), nil
}

// echoValidationToken answers Microsoft Graph (validationToken) and SharePoint
// (validationtoken). Both send no body; events have one.
func echoValidationToken(in received) (*reply, *refusal) {
	query, err := in.query()
	if err != nil || len(in.Body) > 0 {
		return nil, nil
	}
	var values []string
	for name := range query {
		if strings.EqualFold(name, "validationToken") {
			values = append(values, query[name]...)
		}
	}
	text, ok := only(values)
	switch {
	case len(values) == 0:
		return nil, nil
	case !ok:
		return nil, malformed("the validation token is repeated, too long or not plain text")
	}
	return textReply(text), nil
}
