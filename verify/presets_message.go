package verify

import (
	"net/http"

	"github.com/eventhook/eventhook"
)

var verifyToken = Option{Name: "verify_token", About: "the verify token that you entered at the provider", Required: true, Secret: true}

// messagePresets are providers of messaging, email, telephony and social networks.
var messagePresets = []Preset{
	{
		ID: "slack", Name: "Slack",
		DocumentationURL: "https://docs.slack.dev/authentication/verifying-requests-from-slack",
		Verifier: Config{Type: "timestamped_hmac", Header: "X-Slack-Signature", Prefix: "v0=", TimestampHeader: "X-Slack-Request-Timestamp",
			Signed: "v0:{timestamp}:{body}"},
		IdempotencyKeyPaths: []string{"body.event_id"},
		EventTypePaths:      []string{"body.event.type", "body.type", "body.command"},
		Handshake:           "slack",
		Note:                "The secret is the app's signing secret.",
		ReplayProtection:    eventhook.ReplayBody,
	},
	{
		ID: "discord", Name: "Discord",
		DocumentationURL:    "https://discord.com/developers/docs/events/webhook-events",
		Verifier:            Config{Type: "public_key", Header: "X-Signature-Ed25519", TimestampHeader: "X-Signature-Timestamp", ToleranceSeconds: new(0)},
		IdempotencyKeyPaths: []string{"body.id"},
		EventTypePaths:      []string{"body.event.type", "body.type"},
		Handshake:           "discord",
		Note:                "The public key is the application's public key in hexadecimal. Discord specifies no maximum age of the timestamp; set tolerance_seconds to enforce one.",
		ReplayProtection:    eventhook.ReplayBody,
	},
	{
		ID: "telegram", Scheme: "header-token", Name: "Telegram",
		DocumentationURL:    "https://core.telegram.org/bots/api#setwebhook",
		Verifier:            tokenIn("X-Telegram-Bot-Api-Secret-Token"),
		IdempotencyKeyPaths: []string{"body.update_id"},
		Uncovered:           onlyToken,
		Note:                "The secret is the secret_token that you passed to setWebhook.",
	},
	{
		ID: "twilio", Name: "Twilio",
		DocumentationURL:    "https://www.twilio.com/docs/usage/security",
		Verifier:            Config{Type: "url_form_hmac", Header: "X-Twilio-Signature", Algorithm: "sha1", Encoding: "base64"},
		IdempotencyKeyPaths: []string{"header.i-twilio-idempotency-token"},
		EventTypePaths:      []string{"body.MessageStatus", "body.CallStatus", "body.EventType"},
		Methods:             []string{http.MethodGet},
		Note:                "The secret is the account's auth token. The signature covers the URL: EVENTHOOK_PUBLIC_URL must match the URL registered at Twilio.",
		Repeats:             "a call that reaches the same step again sends the same parameters",
	},
	{
		ID: "sendgrid", Name: "SendGrid",
		DocumentationURL: "https://www.twilio.com/docs/sendgrid/for-developers/tracking-events/getting-started-event-webhook-security-features",
		Verifier: Config{Type: "public_key", Header: "X-Twilio-Email-Event-Webhook-Signature", Encoding: "base64", Algorithm: "ecdsa_sha256",
			TimestampHeader: "X-Twilio-Email-Event-Webhook-Timestamp", ToleranceSeconds: new(0)},
		IdempotencyKeyPaths: []string{"sha256.body"},
		EventTypePaths:      []string{"body.0.event"},
		Note:                "The public key is the verification key that SendGrid shows. A request carries several events.",
	},
	{
		ID: "mailgun", Name: "Mailgun",
		DocumentationURL: "https://documentation.mailgun.com/docs/mailgun/user-manual/webhooks/securing-webhooks",
		Verifier: Config{Type: "body_hmac", Path: "signature.signature|signature",
			Signed: "{field.signature.timestamp|timestamp}{field.signature.token|token}"},
		// The event's id is not signed: a sender with one captured signature
		// could combine it with new ids. As the idempotency key, each
		// signature is accepted once.
		IdempotencyKeyPaths: []string{"body.signature.signature", "body.signature"},
		EventTypePaths:      []string{"body.event-data.event", "body.event"},
		Uncovered:           "The signature covers a timestamp and a token, but not the event. The signature is the idempotency key, so each signature is accepted once.",
	},
	{
		ID: "postmark", Scheme: "basic", Name: "Postmark",
		DocumentationURL:    "https://postmarkapp.com/developer/webhooks/webhooks-overview",
		Verifier:            Config{Type: "basic_auth"},
		IdempotencyKeyPaths: []string{"sha256.body"},
		EventTypePaths:      []string{"body.RecordType"},
		Uncovered:           onlyBasic,
		Note:                "The secret is user:password, as in the webhook's URL.",
	},
	{
		ID: "resend", Scheme: "standard-webhooks", Name: "Resend",
		DocumentationURL:    "https://resend.com/docs/webhooks/verify-webhooks-requests",
		Verifier:            svix,
		IdempotencyKeyPaths: svixKeys,
		EventTypePaths:      []string{"body.type"},
	},
	{
		ID: "line", Name: "LINE",
		DocumentationURL:    "https://developers.line.biz/en/docs/messaging-api/verify-webhook-signature/",
		Verifier:            hmacIn("x-line-signature", "base64", ""),
		IdempotencyKeyPaths: []string{"sha256.body"},
		EventTypePaths:      []string{"body.events.0.type"},
		Note:                "The secret is the channel secret.",
	},
	{
		ID: "meta", Name: "Meta (WhatsApp, Instagram, Messenger, Facebook)",
		DocumentationURL:    "https://developers.facebook.com/docs/graph-api/webhooks/getting-started",
		Verifier:            hmacIn("X-Hub-Signature-256", "hex", "sha256="),
		Options:             []Option{optional(verifyToken)},
		IdempotencyKeyPaths: []string{"sha256.body"},
		EventTypePaths:      []string{"body.object + body.entry.0.changes.0.field", "body.object"},
		Methods:             []string{http.MethodGet},
		Handshake:           "meta",
		Note:                "The secret is the app secret. The subscription's handshake is refused unless the option verify_token is set.",
	},
	{
		ID: "x-twitter", Name: "X",
		DocumentationURL: "https://docs.x.com/x-api/webhooks/quickstart",
		Verifier: Config{Type: "hmac", Header: "X-Twitter-Webhooks-Signature", AlsoHeaders: []string{"X-Twitter-Webhooks-Signature-OAuth2"},
			Encoding: "base64", Prefix: "sha256=", Reserved: XChallenge},
		IdempotencyKeyPaths: []string{"sha256.body"},
		Methods:             []string{http.MethodGet},
		Handshake:           "x",
		Note:                "The secret is the consumer secret, or the OAuth 2.0 client secret for the OAuth2 header. The challenge is answered with the first secret.",
	},
	{
		ID: "linkedin", Name: "LinkedIn",
		DocumentationURL:    "https://learn.microsoft.com/en-us/linkedin/shared/api-guide/webhook-validation",
		Verifier:            Config{Type: "hmac", Header: "X-LI-Signature", Signed: "hmacsha256={body}"},
		IdempotencyKeyPaths: []string{"sha256.body"},
		EventTypePaths:      []string{"body.type"},
		Methods:             []string{http.MethodGet},
		Handshake:           "linkedin",
		Note:                "The secret is the app's client secret.",
	},
	{
		ID: "twitch", Name: "Twitch",
		DocumentationURL: "https://dev.twitch.tv/docs/eventsub/handling-webhook-events/",
		Verifier: Config{Type: "timestamped_hmac", Header: "Twitch-Eventsub-Message-Signature", Prefix: "sha256=",
			TimestampHeader: "Twitch-Eventsub-Message-Timestamp", TimestampUnit: "rfc3339", ToleranceSeconds: new(600),
			Signed: "{header.Twitch-Eventsub-Message-Id}{timestamp}{body}"},
		IdempotencyKeyPaths: []string{"header.twitch-eventsub-message-id"},
		EventTypePaths:      []string{"body.subscription.type", "header.twitch-eventsub-subscription-type"},
		Handshake:           "twitch",
	},
	{
		ID: "kick", Name: "Kick",
		DocumentationURL: "https://docs.kick.com/events/webhook-security",
		Verifier: Config{Type: "public_key", Header: "Kick-Event-Signature", Encoding: "base64", Algorithm: "rsa_sha256",
			TimestampHeader: "Kick-Event-Message-Timestamp", TimestampUnit: "rfc3339", ToleranceSeconds: new(0),
			Signed: "{header.Kick-Event-Message-Id}.{timestamp}.{body}",
			Claims: map[string]string{"broadcaster.user_id": "{option.broadcaster_user_id}"}},
		Options:             []Option{{Name: "broadcaster_user_id", About: "the user id of the broadcaster whose events are accepted", Pins: true}},
		IdempotencyKeyPaths: []string{"header.kick-event-message-id"},
		EventTypePaths:      []string{"header.kick-event-type"},
		Note:                "The public key is the key that Kick publishes. Kick signs the webhooks of all applications with this key.",
	},
	{
		ID: "zoom", Name: "Zoom",
		DocumentationURL: "https://developers.zoom.us/docs/api/webhooks/",
		Verifier: Config{Type: "timestamped_hmac", Header: "x-zm-signature", Prefix: "v0=", TimestampHeader: "x-zm-request-timestamp",
			Signed: "v0:{timestamp}:{body}"},
		IdempotencyKeyPaths: []string{"sha256.body"},
		EventTypePaths:      []string{"body.event"},
		Handshake:           "zoom",
		Note:                "The secret is the app's secret token. Zoom validates the URL again every 72 hours.",
	},
}

// optional returns o as an option that is not required.
func optional(o Option) Option {
	o.Required = false
	return o
}
