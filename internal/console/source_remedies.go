package console

import "cmp"

// remedy explains a reason for which sources refuse requests.
type remedy struct {
	Title string // the fault in a few words
	Text  string // the steps of a person
}

// remedies has every reason of the API: those of the verifiers, and the outcomes of requests.
var remedies = map[string]remedy{
	"missing_header": {"A header is missing", "The sender did not sign this request, or a proxy removed the header. Check that the sender has a secret configured, and that the source has the sender's provider."},
	"missing_field":  {"A field is missing", "The body or the URL lacks the field with the signature or token. Check that the URL at the sender is complete, with its query, and that the provider of the source is right."},
	"prefix":         {"The signature has another form", "The header does not begin as this provider writes it. Check the provider, its scheme and, for a custom verifier, the prefix."},
	"encoding":       {"The signature is encoded differently", "The signature is not hexadecimal or base64 as expected. Check the scheme of the provider or the encoding of the custom verifier."},
	"malformed":      {"The request cannot be read", "The request does not have the form that the provider documents. Check that the sender is the provider of this source and sends the content type that you configured."},
	"timestamp":      {"The signature is too old", "The signed time differs too much from the time of receipt. Check the clock of the sender, and do not send recorded requests again; the tolerance is in the settings."},
	"mismatch":       {"No secret matched", "The request is signed with another secret, or a proxy changed its body. Copy the secret from the sender once more and replace it in the settings."},
	"credentials":    {"The credentials are wrong", "User, password or token differ from the configured ones. Compare them at the sender and replace them in the settings."},
	"key_not_found":  {"The key is unknown", "The request is signed with a key that the source does not have. Add the sender's current public key in the settings."},
	"token":          {"The token is not valid", "The token has expired, or its issuer, audience or another claim differs. Check the options of the source, and the URL that is registered at the sender."},
	"keys_unavailable": {"The sender's keys cannot be loaded",
		"The gateway could not fetch the public keys. The sender will try again; if it goes on, check that the gateway may connect to the host of the keys."},

	"unreadable":               {"The body could not be read", "The connection ended before the body was complete. The sender will usually try again."},
	"key_missing":              {"The idempotency key is missing", "This source requires an idempotency key and the request has none. Correct the paths of the key in the settings, or do not require it."},
	"unverified":               {"The request could not be verified", "The signature or the credentials are wrong. Compare the secret in the settings with the one at the sender."},
	"address_not_allowed":      {"The address is not allowed", "The request came from an address outside the allowed ranges. Add the sender's range in the settings, or check which proxies the gateway trusts."},
	"not_found":                {"The source does not accept webhooks", "The source is disabled, or the URL is not that of this source. Enable it in the settings, or copy the URL once more."},
	"method_not_allowed":       {"The HTTP method is not allowed", "Webhooks are sent with POST. Choose POST at the sender."},
	"too_large":                {"The body is too large", "Raise the maximum body size in the settings, or let the sender send less."},
	"content_type_refused":     {"The content type is not accepted", "Add the content type to the accepted ones in the settings, or let the sender send another one."},
	"content_encoding_refused": {"The content encoding is not supported", "Let the sender send the body uncompressed or with gzip."},
	"rate_limited":             {"Too many requests", "The sender exceeds the rate limit of this source. It may try again later; raise the limit in the settings if the traffic is real."},
	"forgery_limited":          {"Too many refused requests", "This address sent many requests that could not be verified, and is blocked for a short time. Correct the secret first, then try again."},
	"failed":                   {"The gateway failed", "The request was right but could not be stored. The sender will try again; the log and the page System have the cause."},
	"shed":                     {"The gateway was overloaded", "The gateway refused requests to protect itself. The sender will try again; the page System shows the load."},
	"log_full":                 {"The log of webhooks was full", "Too many webhooks wait in the log in front of the database. The sender will try again; an administrator must make room in the log."},
	"evicted":                  {"The gateway was short of memory", "Large requests were refused to protect the gateway. The sender will try again."},
	"not_ready":                {"The gateway was starting", "The instance was not ready. The sender will try again."},
	"body_too_slow":            {"The body arrived too slowly", "The sender's connection was slower than the minimum rate. The sender will usually try again."},
	"quota_exceeded":           {"The quota is used up", "The tenant has reached its events per day or its storage. An administrator can raise the quota of the tenant."},
	"loop":                     {"The request runs in a circle", "It went through more than eight gateways. A subscription or a route sends events back to this source: remove it."},
	"handshake_malformed":      {"The handshake cannot be read", "The provider's confirmation request lacks something. Check that the source has the right provider, and register the URL again."},
	"handshake_refused":        {"The handshake was refused", "The token in the confirmation differs from the one of the source, or the source no longer waits for a handshake. Check the options and the secret, reset the handshake if there is one, and register the URL again."},
}

// remedyOf returns the explanation of a reason. A reason of a newer API is shown as it is.
func remedyOf(reason string) remedy {
	r := remedies[reason]
	return remedy{Title: cmp.Or(r.Title, reason), Text: cmp.Or(r.Text, "The detail has what the gateway knows.")}
}
