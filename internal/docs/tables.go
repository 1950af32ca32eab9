package docs

import "github.com/eventhook/eventhook/verify"

// about is a key and what it means.
type about struct{ key, about string }

// types says what each type of verifier verifies. A test wants a line for each.
var types = map[string]string{
	"api_key":           "a token in a header, a parameter of the URL, or a field of the body. The body is not covered",
	"aws_sns":           "messages of Amazon SNS",
	"basic_auth":        "user and password by HTTP Basic authentication. The body is not covered",
	"body_hmac":         "a field of the body that is the HMAC of other fields, which alone are covered",
	"hash":              "a plain hash of secret and message; for who cannot choose an HMAC",
	"hmac":              "an HMAC of the body in a header",
	"jwt":               "a JSON Web Token in a header. The body is covered with `body_hash_claim` only",
	"none":              "nothing: everybody who knows the URL is believed",
	"public_key":        "a signature by a private key in a header",
	"standard_webhooks": "[Standard Webhooks](https://www.standardwebhooks.com) 1.0, also in Svix's headers",
	"timestamped_hmac":  "an HMAC of a timestamp and the body",
	"url_form_hmac":     "an HMAC of the URL and the fields of a form, as Twilio's",
}

// fields says what each field of a verifier is, in the order of the code. A
// test wants a line for each.
var fields = []about{
	{"header", "the header that carries the signature or the token. One that is sent several times, or lists several signatures, is good if one of them is"},
	{"also_headers", "other headers that may carry it instead"},
	{"header_per_secret", "`true`: the first secret is for `header`, the second for the first of `also_headers`, and so on"},
	{"header_json", "the member of the base64 encoded JSON object in `header` that is the signature"},
	{"query", "a parameter of the URL that carries the token instead"},
	{"path", "a field of the body that carries it, such as `data.token`; `#` stands for all elements of a list"},
	{"items", "the objects of the body that are signed each for itself, such as `items.#`"},
	{"prefix", "stands before each signature or token, such as `sha256=`; others are passed over"},
	{"separator", "stands between several signatures: `,` (default), `;`, `&` or a space"},
	{"encoding", "`hex` (default), `base64`, or `base64url` with or without padding"},
	{"timestamp_key", "names the timestamp in a header such as `t=…,v1=…`; `t` by default"},
	{"signature_key", "names the signatures there; `v1` by default"},
	{"signed", "a template of what is signed, see below; `{body}` by default, with a timestamp `{timestamp}.{body}`, for public keys `{timestamp}{body}`"},
	{"algorithm", "`sha1`, `sha256` (default) or `sha512`; for `public_key` `ed25519` (default), `ecdsa_sha256`, `ecdsa_sha1`, `rsa_sha256` or `rsa_sha1`; " +
		"for `jwt` `RS256` (default), `HS256`, `PS256`, `ES256`, their 384 and 512, or `EdDSA`"},
	{"secrets", "1 to 16, all live: during a rotation the new one and the old one"},
	{"secret_encoding", "`text` (default), `base64`, `hex`, or `sha1`: the key is the SHA-1 of the secret"},
	{"public_keys", "at most 20 in all, each as PEM, as JWK or JWK Set, in base64 of DER, or for Ed25519 as 64 hexadecimal digits"},
	{"certificate_header", "the header with the URL of the certificate"},
	{"certificate_hosts", "the hosts that this may be on; `*.example.com` stands for all below, and a path after a host is what the URL's path must begin with"},
	{"reserved", "a regular expression of messages that are no webhooks, since the provider's handshake has them signed for whoever asks (X, Braintree)"},
	{"require_headers", "headers that must be there once with exactly these values"},
	{"timestamp_header", "the header with the timestamp"},
	{"timestamp_path", "the field of the body with the timestamp"},
	{"timestamp_unit", "`seconds` (default), `milliseconds` or `rfc3339`"},
	{"tolerance_seconds", "how far timestamp and receipt may lie apart, either way; 300 by default, 0: the time is not judged. For `jwt` the age of a token that says when it was issued (`iat`); where it is given, a token must say it"},
	{"allow_future", "`true`: only a timestamp in the past can be too far away"},
	{"jwks_url", "https URL of the key set"},
	{"issuers", "the token's `iss` must be one of these"},
	{"audience", "the token's `aud` must hold this; `{url}` stands for the URL of the request"},
	{"claims", "claims with the values that they must have; for `aws_sns` `TopicArn`, for `public_key` fields of the body"},
	{"body_hash_claim", "the claim that is the body's SHA-256"},
	{"body_hash_encoding", "how that is written: `hex` (default), `base64` or `base64url`"},
	{"values", "the tokens, all live; for `basic_auth` each as `user:password`"},
	{"username", "the user, beside `password`"},
	{"password", "the password"},
}

// capturedKinds says in the overview what can be done with a captured request.
var capturedKinds = map[verify.Captured]string{
	verify.CapturedDuplicate: "duplicate",
	verify.CapturedNewEvent:  "**new event**",
	verify.CapturedAnyBody:   "**any body**",
}

// placeholders are those of a template. A test wants them all.
var placeholders = []about{
	{"{body}", "the raw bytes of the body; at most once"},
	{"{timestamp}", "the timestamp as it was sent"},
	{"{method}", "the method of the request"},
	{"{url}", "the URL with the query, as it is registered: `EVENTHOOK_PUBLIC_URL` and the path"},
	{"{url_decoded}", "the same, with the escapes of `:/?@!$'()*,;` undone (HubSpot)"},
	{"{path_encoded}", "the URL's path and query, encoded once more (Contentful)"},
	{"{crc32}", "CRC-32 of the body in decimal (PayPal)"},
	{"{header.<name>}", "a header, which must be there once"},
	{"{headers.<name>}", "the headers that this one lists, as `name:value`, sorted, with `;` between (Contentful)"},
	{"{field.<path>}", "a field of the body, empty if it is absent; `|` stands between alternatives"},
	{"{{", "a brace"},
}

// handshakes says what each handshake does. A test wants a line for each that
// a provider has, and no other.
var handshakes = map[string]string{
	"adyen":            "A test notification without items, which Adyen sends unsigned, is answered `[accepted]`.",
	"asana":            "The first request within an hour after the source was created brings the secret in `X-Hook-Secret`, which is stored, sent back, and counts at once. To take another, or to wait for another hour: `POST T/sources/{slug}/handshake/reset`.",
	"aws-sns":          "A signed `SubscriptionConfirmation` is confirmed by calling its `SubscribeURL`, which must be Amazon SNS's.",
	"azure-event-grid": "A `SubscriptionValidation` event with the token is answered with its validation code; `OPTIONS` with `WebHook-Request-Origin` is allowed.",
	"braintree":        "`GET` with `bt_challenge` is answered with the public key's id and the HMAC of the challenge.",
	"challenge":        "`GET` with `challenge` is answered with the challenge.",
	"cloudevents":      "`OPTIONS` with `WebHook-Request-Origin` is allowed. A callback that it asks for is not made.",
	"discord":          "A signed PING is answered: of interactions with `{\"type\":1}`, of webhook events with 204.",
	"ebay":             "`GET` with `challenge_code` is answered with the SHA-256 of the code, the verification token and the endpoint's URL.",
	"fastly":           "`/.well-known/fastly/logging/challenge` is answered with the hashes of the services of all sources.",
	"google-sync":      "The `sync` message that opens a channel is answered 200 and makes no event.",
	"linkedin":         "`GET` with `challengeCode` is answered with the code and its HMAC. LinkedIn asks again every two hours.",
	"meta":             "`GET` with `hub.challenge` is answered with the challenge if `hub.verify_token` is the option's.",
	"microsoft":        "`POST` with `validationToken` and no body is answered with the token as text.",
	"monday":           "A body with nothing but `challenge` is answered with the same.",
	"notion":           "The first request brings the secret as `verification_token`, which is stored. Read it once with `POST T/sources/{slug}/handshake/reveal`, from when on it counts, and paste it into Notion.",
	"okta":             "`GET` with `X-Okta-Verification-Challenge` and the secret is answered with the challenge.",
	"slack":            "A signed `url_verification` is answered with its challenge.",
	"smartsheet":       "The challenge in `Smartsheet-Hook-Challenge` and in the body is sent back in both.",
	"strava":           "`GET` with `hub.challenge` is answered with the challenge as JSON if `hub.verify_token` is the option's.",
	"trello":           "`HEAD` is answered 200.",
	"twitch":           "A signed `webhook_callback_verification` is answered with its challenge.",
	"websub":           "`GET` with `hub.challenge` is answered with the challenge, for a subscription and for its end; for another topic than the option's with 404.",
	"woocommerce":      "The unsigned ping, a form with nothing but `webhook_id`, is answered 200 and makes no event.",
	"x":                "`GET` with `crc_token` is answered with its HMAC. X asks again every hour.",
	"xero":             "The \"intent to receive\", which has no events, is answered 200 if it is rightly signed and 401 without a body if it is not.",
	"zoom":             "A signed `endpoint.url_validation` is answered with its token and the token's HMAC.",
}
