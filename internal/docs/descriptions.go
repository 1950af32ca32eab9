package docs

import "github.com/eventhook/eventhook/verify"

// entry is a row of a table: a key and its description.
type entry struct{ Key, About string }

// types describes each type of verifier. A test checks that it is complete.
var types = []entry{
	{"api_key", "a token in a header, a URL parameter, or a field of the body. The body is not signed"},
	{"aws_sns", "the signature of an Amazon SNS message"},
	{"basic_auth", "user and password in HTTP Basic authentication. The body is not signed"},
	{"body_hmac", "a field of the body that is the HMAC of other fields. The rest of the body is not signed"},
	{"hash", "a plain hash of secret and message, for senders that do not support HMAC"},
	{"hmac", "an HMAC of the body in a header"},
	{"jwt", "a JSON Web Token in a header. The body is signed only with `body_hash_claim`"},
	{"none", "nothing: every request to the URL is accepted"},
	{"public_key", "a public-key signature in a header"},
	{"standard_webhooks", "[Standard Webhooks](https://www.standardwebhooks.com) 1.0, also with Svix's headers"},
	{"timestamped_hmac", "an HMAC of a timestamp and the body"},
	{"url_form_hmac", "an HMAC of the URL and the fields of a form, as Twilio computes it"},
}

// fields describes each field of a verifier, in the order of verify.Config. A
// test checks that it is complete.
var fields = []entry{
	{"header", "the header that contains the signature or token. If the header is sent several times or lists several signatures, one valid signature is enough"},
	{"also_headers", "alternative headers that can contain the signature"},
	{"header_per_secret", "`true`: the first secret is checked against `header`, the second against the first of `also_headers`, and so on"},
	{"header_json", "if `header` contains a base64-encoded JSON object: the member with the signature"},
	{"query", "a URL parameter that can contain the token instead of the header"},
	{"path", "the field of the body that contains the signature or token, such as `data.token`; `#` stands for all elements of a list"},
	{"items", "the objects of the body that are signed individually, such as `items.#`"},
	{"prefix", "the text before each signature or token, such as `sha256=`; signatures with other prefixes are ignored"},
	{"separator", "the separator of several signatures: `,` (default), `;`, `&` or a space"},
	{"encoding", "the encoding of the signature: `hex` (default), `base64`, or `base64url` with or without padding"},
	{"timestamp_key", "the name of the timestamp in a header such as `t=…,v1=…`; `t` by default"},
	{"signature_key", "the name of the signatures in such a header; `v1` by default"},
	{"signed", "a template of the signed text, see [What is signed](#what-is-signed); defaults to `{body}`, with a timestamp to `{timestamp}.{body}`, for `public_key` with a timestamp to `{timestamp}{body}`"},
	{"algorithm", "`sha1`, `sha256` (default) or `sha512`; for `public_key` `ed25519` (default), `ecdsa_sha256`, `ecdsa_sha1`, `rsa_sha256` or `rsa_sha1`; " +
		"for `jwt` `RS256` (default), `HS256`, `PS256`, `ES256`, the variants of these with 384 and 512, or `EdDSA`"},
	{"secrets", "1 to 16 secrets, all valid at the same time: during a rotation the new and the old secret"},
	{"secret_encoding", "`text` (default), `base64`, `hex`, or `sha1`: the key is the SHA-1 of the secret"},
	{"public_keys", "at most 20 keys, each as PEM, as a JWK or JWK Set, as base64 of DER, or for Ed25519 as 64 hexadecimal digits"},
	{"certificate_header", "the header with the URL of the signer's certificate"},
	{"certificate_hosts", "the hosts that this URL can have; `*.example.com` stands for all subdomains. If a path follows a host, the URL's path must begin with it"},
	{"reserved", "a regular expression. Signed messages that match it are rejected, because the provider's handshake signs such messages for any caller (X, Braintree)"},
	{"require_headers", "headers that must be sent exactly once, with exactly these values"},
	{"timestamp_header", "the header with the timestamp"},
	{"timestamp_path", "the field of the body with the timestamp"},
	{"timestamp_unit", "`seconds` (default), `milliseconds` or `rfc3339`"},
	{"tolerance_seconds", "the maximum difference between timestamp and receipt, before or after; 300 by default; with 0 the timestamp's age is not checked. " +
		"For `jwt` the maximum age of a token that contains its issue time (`iat`); if it is set to more than 0, tokens must contain `iat`"},
	{"allow_future", "`true`: timestamps in the future are accepted"},
	{"jwks_url", "the https URL of the key set"},
	{"issuers", "the token's `iss` must be one of these"},
	{"audience", "the token's `aud` must contain this; `{url}` stands for the URL of the request"},
	{"claims", "claims and their required values; for `aws_sns` only `TopicArn`; for `public_key` fields of the body"},
	{"body_hash_claim", "the claim that contains the body's SHA-256"},
	{"body_hash_encoding", "the encoding of this hash: `hex` (default), `base64` or `base64url`"},
	{"values", "the tokens, all valid at the same time; for `basic_auth` each as `user:password`"},
	{"username", "the user, together with `password`"},
	{"password", "the password"},
}

// replayKinds are the cells of the overview's column about replays.
var replayKinds = map[verify.Captured]string{
	verify.CapturedDuplicate: "duplicate",
	verify.CapturedNewEvent:  "**new event**",
	verify.CapturedAnyBody:   "**any body**",
}

// placeholders are the placeholders of a template. A test checks that the list
// is complete.
var placeholders = []entry{
	{"{body}", "the raw bytes of the body; at most once"},
	{"{timestamp}", "the timestamp as it was sent"},
	{"{method}", "the method of the request"},
	{"{url}", "the registered URL with its query: `EVENTHOOK_PUBLIC_URL` and the path"},
	{"{url_decoded}", "the URL as in `{url}`, in which the escapes of `:/?@!$'()*,;` are decoded (HubSpot)"},
	{"{path_encoded}", "the URL's path and query, encoded a second time (Contentful)"},
	{"{crc32}", "the CRC-32 of the body in decimal (PayPal)"},
	{"{header.<name>}", "a header, which must be sent exactly once"},
	{"{headers.<name>}", "the headers that this header lists, as `name:value`, sorted and joined with `;` (Contentful)"},
	{"{field.<path>}", "a field of the body, empty if it is absent; `|` separates alternative paths"},
	{"{{", "a literal `{`"},
}

// handshakes describes each handshake that a provider has. A test checks that
// it is complete and has no other entry.
var handshakes = map[string]string{
	"adyen":            "Adyen's unsigned test notification, which has no items, is answered with `[accepted]`.",
	"asana":            "The first request within an hour after the source was created contains the secret in `X-Hook-Secret`. The secret is stored, returned and valid immediately. To accept another secret, or to wait for another hour, call `POST /api/tenants/{tenant}/eventhook/sources/{slug}/handshake/reset`.",
	"aws-sns":          "A signed `SubscriptionConfirmation` is confirmed by a request to its `SubscribeURL`, which must be a URL of Amazon SNS.",
	"azure-event-grid": "A `SubscriptionValidation` event with the token is answered with its validation code. `OPTIONS` with `WebHook-Request-Origin` is answered with `WebHook-Allowed-Origin`.",
	"braintree":        "`GET` with `bt_challenge` is answered with the public key's id and the HMAC of the challenge.",
	"challenge":        "`GET` with `challenge` is answered with the challenge.",
	"cloudevents":      "`OPTIONS` with `WebHook-Request-Origin` is answered with `WebHook-Allowed-Origin`. `WebHook-Request-Callback` is ignored.",
	"discord":          "A signed PING is answered: for interactions with `{\"type\":1}`, for webhook events with 204.",
	"ebay":             "`GET` with `challenge_code` is answered with the SHA-256 of the code, the verification token and the endpoint's URL.",
	"fastly":           "`/.well-known/fastly/logging/challenge` is answered with the hashes of the services of all sources.",
	"google-sync":      "The `sync` message that opens a channel is answered with 200 and creates no event.",
	"linkedin":         "`GET` with `challengeCode` is answered with the code and its HMAC. LinkedIn repeats the challenge every two hours.",
	"meta":             "`GET` with `hub.challenge` is answered with the challenge if `hub.verify_token` equals the option `verify_token`.",
	"microsoft":        "`POST` with `validationToken` and an empty body is answered with the token as text.",
	"monday":           "A body that contains only `challenge` is returned unchanged.",
	"notion":           "The first request contains the secret as `verification_token`, which is stored. Read the secret with `POST /api/tenants/{tenant}/eventhook/sources/{slug}/handshake/reveal`, which also activates it, and paste it into Notion. The secret can be read only once.",
	"okta":             "`GET` with `X-Okta-Verification-Challenge` and the secret is answered with the challenge.",
	"slack":            "A signed `url_verification` is answered with its challenge.",
	"smartsheet":       "The challenge in `Smartsheet-Hook-Challenge` and in the body is returned in the header and the body.",
	"strava":           "`GET` with `hub.challenge` is answered with the challenge as JSON if `hub.verify_token` equals the option `verify_token`.",
	"trello":           "`HEAD` is answered with 200.",
	"twitch":           "A signed `webhook_callback_verification` is answered with its challenge.",
	"websub":           "`GET` with `hub.challenge` is answered with the challenge to subscribe, and to unsubscribe if the option `unsubscribe` is `yes`. If the option `topic` is set, another topic is answered with 404.",
	"woocommerce":      "The unsigned ping, a form that contains only `webhook_id`, is answered with 200 and creates no event.",
	"x":                "`GET` with `crc_token` is answered with its HMAC. X repeats the challenge every hour.",
	"xero":             "The \"intent to receive\", which contains no events, is answered with 200 if its signature is valid, and otherwise with 401 and an empty body.",
	"zoom":             "A signed `endpoint.url_validation` is answered with its token and the token's HMAC.",
}
