package verify

import (
	"net/http"
	"strconv"

	"github.com/eventhook/eventhook"
)

// svix is the scheme of Svix and of providers that send through Svix. Requests
// carry Svix's own headers or the headers of Standard Webhooks.
var (
	svix     = Config{Type: "standard_webhooks", Header: "svix-signature", AlsoHeaders: []string{"webhook-signature"}}
	svixKeys = []string{"header.svix-id", "header.webhook-id"}
)

var webSubOptions = []Option{
	{Name: "topic", About: "the topic's URL; only subscriptions to this topic are confirmed. By default every topic is confirmed"},
	{Name: "unsubscribe", About: "yes to confirm unsubscribe requests, too; any sender can send them"},
}

// webPresets are standards, and providers of identity, content and files.
var webPresets = []Preset{
	{
		ID: "standard-webhooks", Name: "Standard Webhooks",
		DocumentationURL:    "https://www.standardwebhooks.com",
		Verifier:            Config{Type: "standard_webhooks", Header: "webhook-signature"},
		IdempotencyKeyPaths: []string{"header.webhook-id"},
		EventTypePaths:      []string{"body.type"},
		Note:                "For every sender that implements Standard Webhooks. Set secrets (whsec_…), public_keys (whpk_…), or both.",
	},
	{
		ID: "svix", Scheme: "standard-webhooks", Name: "Svix",
		DocumentationURL:    "https://docs.svix.com/receiving/verifying-payloads/how-manual",
		Verifier:            svix,
		IdempotencyKeyPaths: svixKeys,
		EventTypePaths:      []string{"body.type", "body.event_type"},
		Note:                "For every sender that uses Svix, such as incident.io and Brex.",
	},
	{
		ID: "clerk", Scheme: "standard-webhooks", Name: "Clerk",
		DocumentationURL:    "https://clerk.com/docs/guides/development/webhooks/overview",
		Verifier:            svix,
		IdempotencyKeyPaths: svixKeys,
		EventTypePaths:      []string{"body.type"},
	},
	{
		ID: "websub", Name: "WebSub",
		DocumentationURL: "https://www.w3.org/TR/websub/",
		Verifier:         Config{Type: "hmac", Header: "X-Hub-Signature", Algorithm: "sha1", Prefix: "sha1="},
		Options:          webSubOptions,
		Methods:          []string{http.MethodGet},
		Handshake:        "websub",
		Note:             "The secret is the hub.secret of the subscription. YouTube's hub signs with SHA-1.",
		Repeats:          "a publisher can send the same content again",
	},
	{
		ID: "websub", Scheme: "websub-sha256", Name: "WebSub (SHA-256)",
		DocumentationURL: "https://www.w3.org/TR/websub/",
		Verifier:         hmacIn("X-Hub-Signature", "hex", "sha256="),
		Options:          webSubOptions,
		Methods:          []string{http.MethodGet},
		Handshake:        "websub",
		Repeats:          "a publisher can send the same content again",
	},
	{
		ID: "cloudevents", Scheme: "bearer-token", Name: "CloudEvents over HTTP",
		DocumentationURL:    "https://github.com/cloudevents/spec/blob/main/cloudevents/http-webhook.md",
		Verifier:            Config{Type: "api_key", Header: "Authorization", Prefix: "Bearer ", Query: "access_token"},
		IdempotencyKeyPaths: []string{"header.ce-source + header.ce-id", "body.source + body.id"},
		EventTypePaths:      []string{"header.ce-type", "body.type"},
		Methods:             []string{http.MethodOptions},
		Handshake:           "cloudevents",
		Uncovered:           onlyToken,
		Note:                "The secret is the bearer token, sent in the header or as the URL parameter access_token.",
	},
	{
		ID: "okta", Scheme: "header-token", Name: "Okta event hooks",
		DocumentationURL:    "https://developer.okta.com/docs/concepts/event-hooks/",
		Verifier:            tokenIn("Authorization"),
		IdempotencyKeyPaths: []string{"body.eventId"},
		EventTypePaths:      []string{"body.data.events.0.eventType", "body.eventType"},
		Methods:             []string{http.MethodGet},
		Handshake:           "okta",
		Uncovered:           onlyToken,
		Note:                "The secret is the complete value of the hook's authentication field.",
	},
	{
		ID: "auth0", Scheme: "header-token", Name: "Auth0 log streams",
		DocumentationURL:    "https://auth0.com/docs/customize/log-streams/custom-log-streams",
		Verifier:            tokenIn("Authorization"),
		IdempotencyKeyPaths: []string{"sha256.body"},
		EventTypePaths:      []string{"body.0.data.type", "body.data.type"},
		Uncovered:           onlyToken,
		Note:                "The secret is the complete authorization token, including Bearer.",
	},
	{
		ID: "workos", Name: "WorkOS",
		DocumentationURL:    "https://workos.com/docs/events/data-syncing/webhooks",
		Verifier:            Config{Type: "timestamped_hmac", Header: "WorkOS-Signature", TimestampUnit: "milliseconds", ToleranceSeconds: new(180), AllowFuture: true},
		IdempotencyKeyPaths: []string{"body.id"},
		EventTypePaths:      []string{"body.event"},
	},
	{
		ID: "contentful", Name: "Contentful",
		DocumentationURL: "https://www.contentful.com/developers/docs/webhooks/request-verification/",
		Verifier: Config{Type: "timestamped_hmac", Header: "X-Contentful-Signature", TimestampHeader: "X-Contentful-Timestamp",
			TimestampUnit: "milliseconds", ToleranceSeconds: new(30), AllowFuture: true, Signed: "{method}\n{path_encoded}\n{headers.X-Contentful-Signed-Headers}\n{body}"},
		// The webhook's owner defines the body, so the bodies of two events can be equal.
		IdempotencyKeyPaths: []string{"header.x-contentful-topic + header.x-contentful-timestamp + sha256.body"},
		EventTypePaths:      []string{"header.x-contentful-topic"},
		Note:                "The secret has 64 characters. The signature covers the URL's path: EVENTHOOK_PUBLIC_URL must match the URL registered at Contentful. The tolerance is 30 s, as in Contentful's own library.",
		Repeats:             "the webhook's owner defines the body, and entries that are published together can share a timestamp",
	},
	{
		ID: "webflow", Name: "Webflow",
		DocumentationURL: "https://developers.webflow.com/data/docs/working-with-webhooks",
		Verifier: Config{Type: "timestamped_hmac", Header: "x-webflow-signature", TimestampHeader: "x-webflow-timestamp",
			TimestampUnit: "milliseconds", Signed: "{timestamp}:{body}"},
		IdempotencyKeyPaths: []string{"sha256.body"},
		EventTypePaths:      []string{"body.triggerType"},
	},
	{
		ID: "box", Name: "Box",
		DocumentationURL: "https://developer.box.com/guides/webhooks/v2/signatures-v2/",
		Verifier: Config{Type: "timestamped_hmac", Header: "Box-Signature-Primary", AlsoHeaders: []string{"Box-Signature-Secondary"},
			HeaderPerSecret: true, Encoding: "base64", TimestampHeader: "Box-Delivery-Timestamp", TimestampUnit: "rfc3339",
			ToleranceSeconds: new(600), Signed: "{body}{timestamp}",
			RequireHeaders: map[string]string{"Box-Signature-Version": "1", "Box-Signature-Algorithm": "HmacSHA256"}},
		IdempotencyKeyPaths: []string{"header.box-delivery-id"},
		EventTypePaths:      []string{"body.trigger"},
		Note:                "The first secret is the primary key, the second the secondary key.",
		ReplayProtection:    eventhook.ReplayBody,
	},
	{
		ID: "dropbox", Name: "Dropbox",
		DocumentationURL: "https://www.dropbox.com/developers/reference/webhooks",
		Verifier:         hmacIn("X-Dropbox-Signature", "hex", ""),
		Methods:          []string{http.MethodGet},
		Handshake:        "challenge",
		Note:             "The secret is the app secret. A request only says which accounts' files changed.",
		Repeats:          "a request only says which accounts' files changed, so successive requests can have equal bodies",
	},
}

// numbered returns the header names that consist of name and a number in [from, to].
func numbered(name string, from, to int) []string {
	var names []string
	for n := from; n <= to; n++ {
		names = append(names, name+strconv.Itoa(n))
	}
	return names
}
