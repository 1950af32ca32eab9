package ingest

import (
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // Braintree's choice
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"hash"
	"regexp"

	"github.com/eventhook/eventhook/verify"
)

// Handshakes that require a proof that the gateway knows the secret; the newest one is used.
// Any sender can send most of these, and some providers sign webhooks with the same secret
// in the same way. If a sender could get any text signed, the sender could forge any
// webhook. So these steps only sign texts that cannot be a webhook, and the verifiers of X
// and Braintree refuse texts of that form.

var (
	xToken = regexp.MustCompile(verify.XChallenge)
	// The text that LinkedIn signs for an event begins with hmacsha256=, which this excludes.
	linkedInCode = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)
	// The form in Braintree's own libraries; the texts signed for events are longer.
	braintreeChallenge = regexp.MustCompile(verify.BraintreeChallenge)
)

// proveToX answers X's challenge-response check.
func proveToX(in received) (*reply, *refusal) {
	token, secret, refused := in.proof("crc_token", xToken)
	if refused != nil {
		return nil, refused
	}
	sum := sumHMAC(sha256.New, secret, token)
	return jsonReply(map[string]string{"response_token": "sha256=" + base64.StdEncoding.EncodeToString(sum)}), nil
}

// proveToLinkedIn answers LinkedIn's challenge.
func proveToLinkedIn(in received) (*reply, *refusal) {
	code, secret, refused := in.proof("challengeCode", linkedInCode)
	if refused != nil {
		return nil, refused
	}
	sum := sumHMAC(sha256.New, secret, code)
	return jsonReply(map[string]string{"challengeCode": code, "challengeResponse": hex.EncodeToString(sum)}), nil
}

// proveToBraintree answers Braintree's challenge. The HMAC key is the SHA-1 of the secret, and
// the reply names the public key that belongs to the secret.
func proveToBraintree(in received) (*reply, *refusal) {
	text, secret, refused := in.proof("bt_challenge", braintreeChallenge)
	public := in.source.options["public_key_id"]
	switch {
	case refused != nil:
		return nil, refused
	case public == "":
		return nil, unwanted("the source has no option public_key_id")
	}
	key := sha1.Sum([]byte(secret)) //nolint:gosec // Braintree's choice
	return textReply(public + "|" + hex.EncodeToString(sumHMAC(sha1.New, string(key[:]), text))), nil
}

// proveToEbay answers eBay's challenge with a plain hash of challenge, token and the URL as it
// is registered at eBay.
func proveToEbay(in received) (*reply, *refusal) {
	code, token, refused := in.proof("challenge_code", nil)
	if refused != nil {
		return nil, refused
	}
	url := in.source.options["endpoint"]
	if url == "" {
		url = in.source.signedURL
	}
	sum := sha256.Sum256([]byte(code + token + url))
	return jsonReply(map[string]string{"challengeResponse": hex.EncodeToString(sum[:])}), nil
}

// proveToZoom answers Zoom's URL validation. The request is signed, so the text to sign comes
// from Zoom.
func proveToZoom(in received) (*reply, *refusal) {
	body := object(in.Body)
	if event, _ := textOf(body["event"]); event != "endpoint.url_validation" {
		return nil, nil
	}
	token, ok := textOf(object(body["payload"])["plainToken"])
	secret := in.source.secret.Reveal()
	switch {
	case !ok || !isEcho(token):
		return nil, malformed("the plainToken is missing, too long or not plain text")
	case secret == "":
		return nil, unwanted("the source has no secret")
	}
	sum := sumHMAC(sha256.New, secret, token)
	return jsonReply(map[string]string{"plainToken": token, "encryptedToken": hex.EncodeToString(sum)}), nil
}

// proof returns the parameter to sign and the secret. The parameter must match form, unless
// form is nil.
func (in received) proof(parameter string, form *regexp.Regexp) (text, secret string, refused *refusal) {
	found, refused := in.parameters(parameter)
	secret = in.source.secret.Reveal()
	switch {
	case refused != nil:
		return "", "", refused
	case form != nil && !form.MatchString(found[parameter]):
		return "", "", malformed("the challenge does not have the form of the provider's challenges")
	case secret == "":
		return "", "", unwanted("the source has no secret")
	}
	return found[parameter], secret, nil
}

func sumHMAC(algorithm func() hash.Hash, key, text string) []byte {
	mac := hmac.New(algorithm, []byte(key))
	_, _ = mac.Write([]byte(text)) // cannot fail
	return mac.Sum(nil)
}
