package docs

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/eventhook/eventhook/verify"
)

// Signature describes the check of a request by a verifier, in sentences.
func Signature(c verify.Config) string {
	c = c.WithDefaults()
	describe, ok := descriptions[c.Type]
	if !ok {
		return ""
	}
	sentences := append([]string{describe(c)}, furtherChecks(c)...)
	for i, s := range sentences {
		sentences[i] = strings.ToUpper(s[:1]) + s[1:] + "."
	}
	return strings.Join(sentences, " ")
}

// descriptions has an entry for each type of verifier.
var descriptions = map[string]func(verify.Config) string{
	"api_key": describeToken,
	"aws_sns": func(verify.Config) string {
		return "the body's field `Signature` must contain the RSA signature of the fields `Message`, `MessageId`, `Subject`, `Timestamp`, `TopicArn` and `Type`. " +
			"The key comes from the certificate at `SigningCertURL`, which must be a URL of Amazon SNS"
	},
	"basic_auth": func(verify.Config) string {
		return "requests must contain the user and password of the secret in HTTP Basic authentication"
	},
	"body_hmac": describeBodyHMAC,
	"hash": func(c verify.Config) string {
		return header(c) + " must contain " + encoded(c, "SHA-"+hashSize(c)+" of the secret followed by "+signed(c))
	},
	"hmac": func(c verify.Config) string { return header(c) + " must contain " + hmacOf(c) },
	"jwt":  describeJWT,
	"none": func(verify.Config) string { return "requests are not verified" },
	"public_key": func(c verify.Config) string {
		text := header(c) + " must contain "
		if c.HeaderJSON != "" {
			text += "base64 of a JSON object whose member " + code(c.HeaderJSON) + " is "
		}
		text += encoded(c, "signature ("+keyNames[c.Algorithm]+") of "+signed(c))
		if c.CertificateHeader != "" {
			text += ". The key comes from the certificate at the URL in the header " + code(c.CertificateHeader) + ", which must be below " +
				strings.Join(each(c.CertificateHosts, code), " or ")
		}
		return text
	},
	"standard_webhooks": describeStandard,
	"timestamped_hmac": func(c verify.Config) string {
		if c.TimestampKey == "" {
			return header(c) + " must contain " + hmacOf(c)
		}
		return fmt.Sprintf("%s must contain a list separated by %s with the timestamp as %s and, as %s, %s",
			header(c), code(c.Separator), code(c.TimestampKey+"=…"), code(c.SignatureKey+"=…"), hmacOf(c))
	},
	"url_form_hmac": func(c verify.Config) string {
		return header(c) + " must contain " + encoded(c, macName(c)+" of the URL followed by the names and values of the form's fields, sorted by name. "+
			"If the body is not a form, the URL parameter `bodySHA256` must contain the body's SHA-256")
	},
}

func describeToken(c verify.Config) string {
	switch {
	case c.Path != "":
		return "the body's " + code(c.Path) + " must contain the secret"
	case c.Header == "":
		return "the URL parameter " + code(c.Query) + " must contain the secret"
	}
	text := header(c) + " must contain "
	if c.Prefix != "" {
		text += code(c.Prefix) + " followed by "
	}
	text += "the secret"
	if c.Query != "" {
		text += ", or the URL parameter " + code(c.Query) + " must contain the secret"
	}
	return text
}

func describeBodyHMAC(c verify.Config) string {
	place := "the body's " + code(c.Path)
	if c.Items != "" {
		place = "in each of the body's " + code(c.Items) + ", " + code(c.Path)
	}
	return place + " must contain " + hmacOf(c)
}

func describeJWT(c verify.Config) string {
	text := header(c) + " must contain "
	if c.Prefix != "" {
		text += code(c.Prefix) + " followed by "
	}
	text += "a JSON Web Token (" + c.Algorithm + ")"
	if c.KeySetURL != "" {
		text += " that is signed with a key of <" + c.KeySetURL + ">"
	}
	var claims []string
	if len(c.Issuers) > 0 {
		claims = append(claims, "`iss` must be "+strings.Join(each(c.Issuers, code), " or "))
	}
	if c.Audience != "" {
		claims = append(claims, "`aud` must contain "+code(c.Audience))
	}
	for _, name := range slices.Sorted(maps.Keys(c.Claims)) {
		claims = append(claims, code(name)+" must be "+code(c.Claims[name]))
	}
	if c.BodyHashClaim != "" {
		claims = append(claims, code(c.BodyHashClaim)+" must be the body's SHA-256")
	}
	if len(claims) > 0 {
		text += ". In the token, " + strings.Join(claims, ", ")
	}
	return text
}

func describeStandard(c verify.Config) string {
	family := strings.TrimSuffix(strings.ToLower(c.Header), "-signature")
	text := fmt.Sprintf("the scheme is Standard Webhooks: %s must contain a list separated by spaces. One element must be "+
		"`v1,` followed by the base64 HMAC-SHA256, or `v1a,` followed by the base64 Ed25519 signature, of `{header.%s-id}.{timestamp}.{body}`",
		header(c), family)
	if c.SecretEncoding == "text" {
		return text + ". The secret is used as text"
	}
	return text + ". A secret is `whsec_` followed by base64, a public key is `whpk_` followed by base64"
}

var keyNames = map[string]string{
	"ed25519": "Ed25519", "ecdsa_sha256": "ECDSA, SHA-256", "ecdsa_sha1": "ECDSA, SHA-1", "rsa_sha256": "RSA, SHA-256", "rsa_sha1": "RSA, SHA-1",
}

// header names the header with the signature, and its alternatives.
func header(c verify.Config) string {
	text := "the header " + code(c.Header)
	const maxNamed = 3
	switch also := c.AlsoHeaders; {
	case c.HeaderPerSecret:
		return text + " (for the second secret " + codes(also) + ")"
	case len(also) > maxNamed:
		return text + " (or one of " + code(also[0]) + " to " + code(also[len(also)-1]) + ")"
	case len(also) > 0:
		return text + " (or " + codes(also) + ")"
	}
	return text
}

func hmacOf(c verify.Config) string { return encoded(c, macName(c)+" of "+signed(c)) }

// encoded describes the prefix and the encoding of a signature.
func encoded(c verify.Config, signature string) string {
	text := "the " + map[string]string{"hex": "hexadecimal", "base64": "base64"}[c.Encoding] + " " + signature
	if c.Prefix == "" {
		return text
	}
	return code(c.Prefix) + " followed by " + text
}

func macName(c verify.Config) string { return "HMAC-SHA" + hashSize(c) }

// hashSize returns 1, 256 or 512.
func hashSize(c verify.Config) string { return strings.TrimPrefix(c.Algorithm, "sha") }

func signed(c verify.Config) string {
	if c.Signed == "{body}" {
		return "the body"
	}
	return code(c.Signed)
}

// furtherChecks describes the timestamp, the required headers and the encoding
// of secrets.
func furtherChecks(c verify.Config) (all []string) {
	switch {
	case c.TimestampPath != "":
		all = append(all, "the timestamp is the body's "+code(c.TimestampPath)+", in "+units[c.TimestampUnit])
	case c.TimestampHeader != "":
		all = append(all, "the timestamp is in the header "+code(c.TimestampHeader)+", in "+units[c.TimestampUnit])
	case c.TimestampUnit != "":
		all = append(all, "the timestamp is in "+units[c.TimestampUnit])
	}
	for _, name := range slices.Sorted(maps.Keys(c.RequireHeaders)) {
		all = append(all, "the header "+code(name)+" must be "+code(c.RequireHeaders[name]))
	}
	if text := secretEncodings[c.SecretEncoding]; text != "" && c.Type != "standard_webhooks" {
		all = append(all, text)
	}
	return all
}

var units = map[string]string{"": "Unix seconds", "seconds": "Unix seconds", "milliseconds": "Unix milliseconds", "rfc3339": "RFC 3339"}

var secretEncodings = map[string]string{
	"base64": "the secret is base64", "hex": "the secret is hexadecimal", "sha1": "the key of the HMAC is the SHA-1 of the secret",
}

// maxAge describes the check of a request's timestamp, "" if there is none.
func maxAge(c verify.Config) string {
	c = c.WithDefaults()
	tolerance := verify.DefaultTolerance
	if c.ToleranceSeconds != nil {
		tolerance = *c.ToleranceSeconds
	}
	switch {
	case c.Type == "jwt":
		return tokenAge(c, tolerance)
	case c.TimestampKey == "" && c.TimestampHeader == "" && c.TimestampPath == "" && c.Type != "standard_webhooks":
		return ""
	case tolerance == 0:
		return "The timestamp's age is not checked by default; set `tolerance_seconds` to check it."
	case c.AllowFuture:
		return fmt.Sprintf("The timestamp must be at most %d s before receipt (`tolerance_seconds`); timestamps in the future are accepted.", tolerance)
	}
	return fmt.Sprintf("The timestamp must be at most %d s before or after receipt (`tolerance_seconds`).", tolerance)
}

// tokenAge describes the check of a JWT's times. A configured tolerance makes
// iat required, and then exp optional.
func tokenAge(c verify.Config, tolerance int) string {
	if c.ToleranceSeconds != nil && tolerance > 0 {
		return fmt.Sprintf("The token must contain its issue time (`iat`), at most %d s before receipt (`tolerance_seconds`).", tolerance)
	}
	text := "The token must not have expired more than a minute before receipt."
	if c.BodyHashClaim != "" {
		text += " A token without an expiry (`exp`) does not expire."
	}
	if tolerance > 0 {
		text += fmt.Sprintf(" If it contains its issue time (`iat`), this must be at most %d s before receipt (`tolerance_seconds`).", tolerance)
	}
	return text
}
