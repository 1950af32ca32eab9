package verify

import (
	"slices"

	"github.com/eventhook/eventhook"
)

var hmacFields = append([]string{"header", "also_headers", "header_per_secret", "prefix", "separator", "secrets", "secret_encoding"}, signatureFields...)

// hmacScheme checks a header with the HMAC of the body, or of the template
// Signed. If the header is sent several times, or lists several signatures, one
// valid signature is enough: providers send several during a secret rotation.
var hmacScheme = scheme{
	fields:   hmacFields,
	validate: validateUnstamped,
	build: func(c Config, _ Keys) Verifier {
		return newSignature(c.signatureDefaults(), newMACChecker(c))
	},
}

func validateUnstamped(c Config, f *eventhook.Faults) {
	if m := validateMAC(c.signatureDefaults(), f); !m.hasBody || m.has(timestamp) {
		f.Add("signed", "want a template with {body} and without {timestamp}, which needs type timestamped_hmac")
	}
}

// timestampedScheme checks an HMAC of a timestamp and the body. By default the
// timestamp is in the header of the signatures, "t=1700000000,v1=…,v1=…". It can
// also be in a header of its own or in the body.
var timestampedScheme = scheme{
	fields: slices.Concat(hmacFields, []string{"timestamp_key", "signature_key", "timestamp_header", "timestamp_path",
		"timestamp_unit", "tolerance_seconds", "allow_future"}),
	validate: validateTimestamped,
	build: func(c Config, _ Keys) Verifier {
		return newSignature(c.timestampedDefaults(), newMACChecker(c))
	},
}

func (c Config) timestampedDefaults() Config {
	inList := c.TimestampHeader == "" && c.TimestampPath == ""
	if inList && c.TimestampKey == "" {
		c.TimestampKey = "t"
	}
	if inList && c.SignatureKey == "" {
		c.SignatureKey = "v1"
	}
	switch {
	case c.Signed != "":
	case c.TimestampPath != "":
		c.Signed = "{body}"
	default:
		c.Signed = "{timestamp}.{body}"
	}
	return c.signatureDefaults()
}

func validateTimestamped(c Config, f *eventhook.Faults) {
	c = c.timestampedDefaults()
	m := validateMAC(c, f)
	validateTimestamp(c, f)
	if !m.hasBody || (!m.has(timestamp) && !m.has(headerList) && c.TimestampPath == "") {
		f.Add("signed", "want a template with {body} and {timestamp}: a timestamp that is not signed can be forged")
	}
	if c.TimestampPath != "" && m.has(timestamp) {
		f.Add("signed", "remove {timestamp}, because the body contains the timestamp")
	}
	if c.TimestampHeader != "" || c.TimestampPath != "" {
		if c.TimestampKey != "" || c.SignatureKey != "" {
			f.Add("timestamp_key", "cannot be combined with timestamp_header or timestamp_path")
		}
		return
	}
	if !IsToken(c.TimestampKey) {
		f.Add("timestamp_key", "%q is not a token", c.TimestampKey)
	}
	if !IsToken(c.SignatureKey) {
		f.Add("signature_key", "%q is not a token", c.SignatureKey)
	}
	if c.TimestampKey == c.SignatureKey {
		f.Add("signature_key", "must differ from timestamp_key")
	}
	if c.Prefix != "" {
		f.Add("prefix", "cannot be combined with signature_key")
	}
	if c.HeaderPerSecret || len(c.AlsoHeaders) > 0 {
		f.Add("also_headers", "cannot be used with the timestamp in the list of signatures")
	}
}

// hashScheme checks a plain hash of secret and message. It is weaker than an
// HMAC: an attacker without the secret can append to the message (length
// extension). It exists for providers without an HMAC (HubSpot v1 and v2).
var hashScheme = scheme{
	fields:   hmacFields,
	validate: validateUnstamped,
	build: func(c Config, _ Keys) Verifier {
		check := newMACChecker(c)
		check.plain = true
		return newSignature(c.signatureDefaults(), check)
	},
}

// bodyHMACScheme checks a field of a JSON or form body that is the HMAC of other
// fields. All other fields are not signed, so the signature may have to be the
// idempotency key. Therefore, unless a Separator is configured, the field must
// contain exactly one signature without surrounding text.
var bodyHMACScheme = scheme{
	fields: slices.Concat([]string{"path", "items", "prefix", "separator", "secrets", "secret_encoding"}, signatureFields),
	validate: func(c Config, f *eventhook.Faults) {
		validatePath("path", c.Path, f)
		if c.Items != "" {
			validateOnePath("items", c.Items, true, f)
		}
		if m := validateMAC(c.signatureDefaults(), f); m.hasBody || !m.has(field) || m.has(timestamp) {
			f.Add("signed", "want a template with {field.<path>} and without {timestamp} and {body}, which contains the signature")
		}
	},
	build: func(c Config, _ Keys) Verifier {
		v := newSignature(c.signatureDefaults(), newMACChecker(c))
		v.adapt(func(o *outline) { o.separator = c.Separator })
		return v
	},
	coversBody: never,
}
