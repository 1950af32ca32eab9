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

// Handshakes that want to see that we know the secret, of which the newest
// counts. Most come from anybody, and some providers sign their webhooks with
// the same secret in the same way: who may have any text signed can forge any
// webhook. So these sign only what cannot be one, and the verifiers of X and
// Braintree refuse what these sign.

var (
	xToken = regexp.MustCompile(verify.XChallenge)
	// What LinkedIn signs of an event has hmacsha256= before it.
	linkedInCode = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)
	// As Braintree's own libraries have it; what they sign is longer.
	braintreeChallenge = regexp.MustCompile(verify.BraintreeChallenge)
)

// proveToX: the challenge-response check.
func proveToX(c challenge) (*reply, *refused) {
	token, secret, no := c.proof("crc_token", xToken)
	if no != nil {
		return nil, no
	}
	sum := sumHMAC(sha256.New, secret, token)
	return jsonReply(map[string]string{"response_token": "sha256=" + base64.StdEncoding.EncodeToString(sum)}), nil
}

func proveToLinkedIn(c challenge) (*reply, *refused) {
	code, secret, no := c.proof("challengeCode", linkedInCode)
	if no != nil {
		return nil, no
	}
	sum := sumHMAC(sha256.New, secret, code)
	return jsonReply(map[string]string{"challengeCode": code, "challengeResponse": hex.EncodeToString(sum)}), nil
}

// proveToBraintree: the key is the hash of the secret. The answer names the
// public key that belongs to it.
func proveToBraintree(c challenge) (*reply, *refused) {
	text, secret, no := c.proof("bt_challenge", braintreeChallenge)
	public := c.end.options["public_key_id"]
	switch {
	case no != nil:
		return nil, no
	case public == "":
		return nil, unwanted("the source has no option public_key_id")
	}
	key := sha1.Sum([]byte(secret)) //nolint:gosec // Braintree's choice
	return textReply(public + "|" + hex.EncodeToString(sumHMAC(sha1.New, string(key[:]), text))), nil
}

// proveToEbay: a plain hash, in which the URL must be written as it is
// registered.
func proveToEbay(c challenge) (*reply, *refused) {
	code, token, no := c.proof("challenge_code", nil)
	if no != nil {
		return nil, no
	}
	endpoint := c.end.options["endpoint"]
	if endpoint == "" {
		endpoint = c.end.signedURL
	}
	sum := sha256.Sum256([]byte(code + token + endpoint))
	return jsonReply(map[string]string{"challengeResponse": hex.EncodeToString(sum[:])}), nil
}

// proveToZoom: the request is signed, so whatever it asks to sign is Zoom's.
func proveToZoom(c challenge) (*reply, *refused) {
	body := object(c.Body)
	if event, _ := textOf(body["event"]); event != "endpoint.url_validation" {
		return nil, nil
	}
	token, ok := textOf(object(body["payload"])["plainToken"])
	secret := c.end.secret.Reveal()
	switch {
	case !ok || !isEcho(token):
		return nil, malformed("the plainToken is absent, too long or not plain text")
	case secret == "":
		return nil, unwanted("the source has no secret")
	}
	sum := sumHMAC(sha256.New, secret, token)
	return jsonReply(map[string]string{"plainToken": token, "encryptedToken": hex.EncodeToString(sum)}), nil
}

// proof is a parameter that is to be signed, and the secret. form, if there
// is one, is what the parameter must look like.
func (c challenge) proof(parameter string, form *regexp.Regexp) (text, secret string, no *refused) {
	found, no := c.parameters(parameter)
	secret = c.end.secret.Reveal()
	switch {
	case no != nil:
		return "", "", no
	case form != nil && !form.MatchString(found[parameter]):
		return "", "", malformed("the challenge has another form than the provider's")
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
