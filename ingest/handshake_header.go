package ingest

import (
	"regexp"
	"slices"
)

// Handshakes that are recognized by their headers, or by their method alone.

// acceptHead answers the HEAD request with which Trello checks the URL.
func acceptHead(received) (*reply, *refusal) { return emptyReply(), nil }

// echoOktaHeader answers Okta's one-time verification.
func echoOktaHeader(in received) (*reply, *refusal) {
	text, found, ok := in.header("X-Okta-Verification-Challenge")
	switch {
	case !found:
		return nil, nil
	case !ok:
		return nil, malformed("X-Okta-Verification-Challenge is missing, repeated, too long or not plain text")
	}
	return jsonReply(map[string]string{"verification": text}), nil
}

// acceptSync answers Google's sync message, which says that a channel was created.
// Notifications have another resource state.
func acceptSync(in received) (*reply, *refusal) {
	if state, _, _ := in.header("X-Goog-Resource-State"); state != "sync" || len(in.Body) > 0 {
		return nil, nil
	}
	return emptyReply(), nil
}

// echoTwitch answers the callback verification of Twitch. The message type is not signed, so
// a notification whose type was changed in transit also gets here; it has no challenge and
// is refused.
func echoTwitch(in received) (*reply, *refusal) {
	if kind, _, _ := in.header("Twitch-Eventsub-Message-Type"); kind != "webhook_callback_verification" {
		return nil, nil
	}
	text, ok := textOf(object(in.Body)["challenge"])
	if !ok || !isEcho(text) {
		return nil, malformed("the challenge is missing, too long or not plain text")
	}
	return textReply(text), nil
}

// echoSmartsheet answers Smartsheet, which sends a challenge in a header and in the body and
// expects it back in both. Events have neither.
func echoSmartsheet(in received) (*reply, *refusal) {
	sent, found, ok := in.header("Smartsheet-Hook-Challenge")
	if !found {
		return nil, nil
	}
	text, isText := textOf(object(in.Body)["challenge"])
	switch {
	case !isText:
		return nil, nil
	case !ok || !isPrintable(sent) || sent != text:
		return nil, malformed("the challenges in header and body differ or are not plain text")
	}
	return jsonReply(map[string]string{"smartsheetHookResponse": text}).with("Smartsheet-Hook-Response", text), nil
}

var (
	hostname = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$`)
	rateText = regexp.MustCompile(`^[0-9]{1,10}$`)
)

// permitOrigin answers the validation request of the CloudEvents specification "HTTP 1.1 Web
// Hooks". It never calls a WebHook-Request-Callback, because the sender chooses that URL.
func permitOrigin(in received) (*reply, *refusal) {
	origin, found, ok := in.header("WebHook-Request-Origin")
	switch {
	case !found:
		return nil, &refusal{outcome: OutcomeMethod, allow: "POST"}
	case !ok || !hostname.MatchString(origin):
		return nil, malformed("WebHook-Request-Origin is not a host name")
	}
	rate, _, _ := in.header("WebHook-Request-Rate")
	if !rateText.MatchString(rate) {
		rate = "*"
	}
	return emptyReply().with("WebHook-Allowed-Origin", origin).with("WebHook-Allowed-Rate", rate).with("Allow", "POST"), nil
}

// isPrintable reports whether a text is printable ASCII, as header values should be.
func isPrintable(s string) bool {
	return !slices.ContainsFunc([]byte(s), func(b byte) bool { return b < ' ' || b > '~' })
}
