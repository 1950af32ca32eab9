package ingest

import (
	"regexp"
	"slices"
)

// Handshakes that are told by their headers, or by their method alone.

// acceptHead: Trello looks whether the URL answers.
func acceptHead(challenge) (*reply, *refused) { return emptyReply(), nil }

// echoOktaHeader: the one-time verification, which carries the token.
func echoOktaHeader(c challenge) (*reply, *refused) {
	text, found, ok := c.header("X-Okta-Verification-Challenge")
	switch {
	case !found:
		return nil, nil
	case !ok:
		return nil, malformed("X-Okta-Verification-Challenge is absent, repeated, too long or not plain text")
	}
	return jsonReply(map[string]string{"verification": text}), nil
}

// acceptSync: Google says that a channel works. Its notifications have another
// state.
func acceptSync(c challenge) (*reply, *refused) {
	if state, _, _ := c.header("X-Goog-Resource-State"); state != "sync" || len(c.Body) > 0 {
		return nil, nil
	}
	return emptyReply(), nil
}

// echoTwitch: the type is not signed, so a notification whose type was changed
// on the way comes here too: it has no challenge.
func echoTwitch(c challenge) (*reply, *refused) {
	if kind, _, _ := c.header("Twitch-Eventsub-Message-Type"); kind != "webhook_callback_verification" {
		return nil, nil
	}
	text, ok := textOf(object(c.Body)["challenge"])
	if !ok || !isEcho(text) {
		return nil, malformed("the challenge is absent, too long or not plain text")
	}
	return textReply(text), nil
}

// echoSmartsheet: the challenge is in a header and in the body, and wanted back
// in both. Events have it in neither.
func echoSmartsheet(c challenge) (*reply, *refused) {
	sent, found, ok := c.header("Smartsheet-Hook-Challenge")
	if !found {
		return nil, nil
	}
	text, isText := textOf(object(c.Body)["challenge"])
	switch {
	case !isText:
		return nil, nil
	case !ok || !isPrintable(sent) || sent != text:
		return nil, malformed("the challenges in header and body are not one plain text")
	}
	return jsonReply(map[string]string{"smartsheetHookResponse": text}).with("Smartsheet-Hook-Response", text), nil
}

var (
	hostname = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$`)
	rateText = regexp.MustCompile(`^[0-9]{1,10}$`)
)

// permitOrigin: the abuse protection of CloudEvents' webhooks. A callback that
// it may ask for is not made: that address is the sender's choice.
func permitOrigin(c challenge) (*reply, *refused) {
	origin, found, ok := c.header("WebHook-Request-Origin")
	switch {
	case !found:
		return nil, &refused{outcome: OutcomeMethod, allow: "POST"}
	case !ok || !hostname.MatchString(origin):
		return nil, malformed("WebHook-Request-Origin is not the name of a host")
	}
	rate, _, _ := c.header("WebHook-Request-Rate")
	if !rateText.MatchString(rate) {
		rate = "*"
	}
	return emptyReply().with("WebHook-Allowed-Origin", origin).with("WebHook-Allowed-Rate", rate).with("Allow", "POST"), nil
}

// isPrintable reports whether a text is printable ASCII, as headers should be.
func isPrintable(s string) bool {
	return !slices.ContainsFunc([]byte(s), func(b byte) bool { return b < ' ' || b > '~' })
}
