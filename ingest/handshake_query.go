package ingest

import (
	"crypto/subtle"
	"strings"
)

// Handshakes that want a parameter of the URL back.

// echoChallenge: Dropbox, Nylas.
func echoChallenge(c challenge) (*reply, *refused) {
	found, no := c.parameters("challenge")
	if no != nil {
		return nil, no
	}
	return textReply(found["challenge"]), nil
}

// echoHub: Meta. The verify token is ours to know, so that nobody else points
// an app of his at the source.
func echoHub(c challenge) (*reply, *refused) {
	text, no := hubChallenge(c)
	if no != nil {
		return nil, no
	}
	return textReply(text), nil
}

// echoHubJSON: Strava asks as Meta does, and wants JSON.
func echoHubJSON(c challenge) (*reply, *refused) {
	text, no := hubChallenge(c)
	if no != nil {
		return nil, no
	}
	return jsonReply(map[string]string{"hub.challenge": text}), nil
}

func hubChallenge(c challenge) (string, *refused) {
	found, no := c.parameters("hub.mode", "hub.challenge", "hub.verify_token")
	token := c.end.options["verify_token"]
	switch {
	case no != nil:
		return "", no
	case found["hub.mode"] != "subscribe":
		return "", malformed("hub.mode is not subscribe")
	case token == "" || subtle.ConstantTimeCompare([]byte(token), []byte(found["hub.verify_token"])) != 1:
		return "", unwanted("the verify_token is another, or the source has none: give the option verify_token")
	}
	return found["hub.challenge"], nil
}

// confirmWebSub: a hub asks whether a subscription, or its end, is wanted, or
// says that it was denied (W3C WebSub, section 5.3). Any is wanted whose topic
// is; another topic is answered 404, as the standard demands.
func confirmWebSub(c challenge) (*reply, *refused) {
	found, no := c.parameters("hub.mode", "hub.topic")
	topic, mode := c.end.options["topic"], found["hub.mode"]
	switch {
	case no != nil:
		return nil, no
	case topic != "" && topic != found["hub.topic"]:
		return nil, &refused{outcome: OutcomeNotFound}
	case mode == "denied":
		return emptyReply(), nil
	case mode == "unsubscribe" && c.end.options["unsubscribe"] != "yes":
		return nil, &refused{outcome: OutcomeNotFound} // anybody can have a hub ask
	case mode != "subscribe" && mode != "unsubscribe":
		return nil, malformed("hub.mode is none that is known")
	}
	found, no = c.parameters("hub.challenge")
	if no != nil {
		return nil, no
	}
	return textReply(found["hub.challenge"]), nil
}

// echoValidationToken: Microsoft Graph says validationToken, SharePoint
// validationtoken, both without a body, which events have.
func echoValidationToken(c challenge) (*reply, *refused) {
	query, err := c.query()
	if err != nil || len(c.Body) > 0 {
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
