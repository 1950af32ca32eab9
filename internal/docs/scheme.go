package docs

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/eventhook/eventhook/verify"
)

// Scheme says in a sentence how requests are verified.
func Scheme(c verify.Config) string {
	c = c.WithDefaults()
	say, ok := sentences[c.Type]
	if !ok {
		return ""
	}
	parts := append([]string{say(c)}, remarks(c)...)
	return strings.Join(parts, "; ") + "."
}

// sentences has a line for each type.
var sentences = map[string]func(verify.Config) string{
	"api_key":    token,
	"aws_sns":    sns,
	"basic_auth": func(verify.Config) string { return "user and password by HTTP Basic authentication" },
	"body_hmac":  bodyHMAC,
	"hash": func(c verify.Config) string {
		return header(c) + " is " + written(c, "SHA-"+size(c)+" of the secret and "+signed(c))
	},
	"hmac":              func(c verify.Config) string { return header(c) + " is " + written(c, macName(c)+" of "+signed(c)) },
	"jwt":               jwt,
	"none":              func(verify.Config) string { return "nothing is verified" },
	"public_key":        publicKey,
	"standard_webhooks": standard,
	"timestamped_hmac":  timestamped,
	"url_form_hmac":     urlForm,
}

func token(c verify.Config) string {
	if c.Path != "" {
		return "the body's " + code(c.Path) + " is the secret"
	}
	if c.Header == "" {
		return "the URL's parameter " + code(c.Query) + " is the secret"
	}
	text := header(c) + " is the secret"
	if c.Prefix != "" {
		text = header(c) + " is " + code(c.Prefix) + " and the secret"
	}
	if c.Query != "" {
		text += ", or the URL's parameter " + code(c.Query) + " is"
	}
	return text
}

func sns(verify.Config) string {
	return "the body's `Signature` is the RSA signature of its `Message`, `MessageId`, `Subject`, `Timestamp`, `TopicArn` and `Type` " +
		"by the certificate at `SigningCertURL`, which must be Amazon SNS's"
}

func bodyHMAC(c verify.Config) string {
	text := "the body's " + code(c.Path) + " is "
	if c.Items != "" {
		text = "of each of the body's " + code(c.Items) + ", " + code(c.Path) + " is "
	}
	return text + written(c, macName(c)+" of "+signed(c))
}

func timestamped(c verify.Config) string {
	if c.TimestampKey != "" {
		list := "with commas between"
		if c.Separator != "," {
			list = "with " + code(c.Separator) + " between"
		}
		return fmt.Sprintf("%s holds, %s, a timestamp as %s and as %s %s", header(c), list, code(c.TimestampKey+"=…"), code(c.SignatureKey+"=…"),
			written(c, macName(c)+" of "+signed(c)))
	}
	return header(c) + " is " + written(c, macName(c)+" of "+signed(c))
}

func urlForm(c verify.Config) string {
	return header(c) + " is " + written(c, macName(c)+" of the URL, followed by the form's names and values in the order of the names; "+
		"of a body that is no form, the URL holds the SHA-256 as `bodySHA256`")
}

func publicKey(c verify.Config) string {
	text := header(c) + " is " + written(c, "signature ("+keyNames[c.Algorithm]+") of "+signed(c))
	if c.HeaderJSON != "" {
		text = header(c) + " is base64 of a JSON object whose " + code(c.HeaderJSON) + " is " + written(c, "signature ("+keyNames[c.Algorithm]+") of "+signed(c))
	}
	if c.CertificateHeader != "" {
		text += ", by the certificate at the URL in " + code(c.CertificateHeader) + ", which must be on " + codes(c.CertificateHosts)
	}
	return text
}

var keyNames = map[string]string{
	"ed25519": "Ed25519", "ecdsa_sha256": "ECDSA, SHA-256", "ecdsa_sha1": "ECDSA, SHA-1", "rsa_sha256": "RSA, SHA-256", "rsa_sha1": "RSA, SHA-1",
}

func jwt(c verify.Config) string {
	text := header(c) + " is "
	if c.Prefix != "" {
		text += code(c.Prefix) + " and "
	}
	text += "a JSON Web Token (" + c.Algorithm + ")"
	if c.KeySetURL != "" {
		text += ", signed with a key of <" + c.KeySetURL + ">"
	}
	var must []string
	if len(c.Issuers) > 0 {
		must = append(must, "`iss` is "+strings.Join(each(c.Issuers, code), " or "))
	}
	if c.Audience != "" {
		must = append(must, "`aud` holds "+code(c.Audience))
	}
	for _, name := range slices.Sorted(maps.Keys(c.Claims)) {
		must = append(must, code(name)+" is "+code(c.Claims[name]))
	}
	if c.BodyHashClaim != "" {
		must = append(must, code(c.BodyHashClaim)+" is the body's SHA-256")
	}
	if len(must) > 0 {
		text += ", in which " + strings.Join(must, ", ")
	}
	return text
}

func standard(c verify.Config) string {
	family := strings.TrimSuffix(strings.ToLower(c.Header), "-signature")
	text := fmt.Sprintf("Standard Webhooks: %s lists, with spaces between, `v1,` and HMAC-SHA256 in base64, or `v1a,` and Ed25519, of `{header.%s-id}.{timestamp}.{body}`",
		header(c), family)
	if c.SecretEncoding == "text" {
		return text + "; the secret is used as it is"
	}
	return text + "; the secret is base64 behind `whsec_`, a public key base64 behind `whpk_`"
}

// header is where the signature is.
func header(c verify.Config) string {
	text := "the header " + code(c.Header)
	const few = 3
	switch also := c.AlsoHeaders; {
	case c.HeaderPerSecret:
		return text + " (for the second secret " + codes(also) + ")"
	case len(also) > few:
		return text + " (or one of " + code(also[0]) + " to " + code(also[len(also)-1]) + ")"
	case len(also) > 0:
		return text + " (or " + strings.Join(each(also, code), ", ") + ")"
	}
	return text
}

// written is a signature as it is written.
func written(c verify.Config, what string) string {
	text := "the " + map[string]string{"hex": "hexadecimal", "base64": "base64"}[c.Encoding] + " " + what
	if c.Prefix == "" {
		return text
	}
	return code(c.Prefix) + " and " + text
}

func macName(c verify.Config) string { return "HMAC-SHA" + size(c) }

// size tells the hashes apart: 1, 256, 512.
func size(c verify.Config) string { return strings.TrimPrefix(c.Algorithm, "sha") }

// signed is what is signed.
func signed(c verify.Config) string {
	if c.Signed == "{body}" {
		return "the body"
	}
	return code(c.Signed)
}

// remarks are what counts besides.
func remarks(c verify.Config) (all []string) {
	if c.TimestampHeader != "" || c.TimestampPath != "" {
		place := "the header " + code(c.TimestampHeader)
		if c.TimestampPath != "" {
			place = "the body's " + code(c.TimestampPath)
		}
		all = append(all, "the timestamp is "+place+", in "+units[c.TimestampUnit])
	} else if c.TimestampUnit != "" {
		all = append(all, "the timestamp is in "+units[c.TimestampUnit])
	}
	for _, name := range slices.Sorted(maps.Keys(c.RequireHeaders)) {
		all = append(all, "the header "+code(name)+" must be "+code(c.RequireHeaders[name]))
	}
	if text := encodings[c.SecretEncoding]; text != "" && c.Type != "standard_webhooks" {
		all = append(all, text)
	}
	return all
}

var units = map[string]string{"": "Unix seconds", "seconds": "Unix seconds", "milliseconds": "Unix milliseconds", "rfc3339": "RFC 3339"}

var encodings = map[string]string{
	"base64": "the secret is base64", "hex": "the secret is hexadecimal", "sha1": "the key is the SHA-1 of the secret",
}

// clock says how the time of a request is judged.
func clock(c verify.Config) string {
	c = c.WithDefaults()
	const usual = 300
	switch {
	case c.Type == "jwt" && c.ToleranceSeconds != nil:
		return fmt.Sprintf("the token may have been issued %d s ago at most (`tolerance_seconds`).", *c.ToleranceSeconds)
	case c.Type == "jwt" && c.BodyHashClaim != "":
		return "as long as the token says; one that does not say when it expires is good for ever."
	case c.Type == "jwt":
		return "as long as the token says, and a minute."
	case c.TimestampKey == "" && c.TimestampHeader == "" && c.TimestampPath == "" && c.Type != "standard_webhooks":
		return ""
	case c.ToleranceSeconds != nil && *c.ToleranceSeconds == 0:
		return "not judged, unless `tolerance_seconds` says so."
	}
	seconds, way := usual, "before or after receipt"
	if c.ToleranceSeconds != nil {
		seconds = *c.ToleranceSeconds
	}
	if c.AllowFuture {
		way = "before receipt"
	}
	return fmt.Sprintf("signed at most %d s %s (`tolerance_seconds`).", seconds, way)
}

func each(list []string, do func(string) string) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = do(s)
	}
	return out
}
