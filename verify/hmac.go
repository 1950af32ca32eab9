package verify

import (
	"slices"

	"github.com/eventhook/eventhook"
)

var hmacFields = append([]string{"header", "also_headers", "header_per_secret", "prefix", "separator", "secrets", "secret_encoding"}, signatureFields...)

// hmacScheme: the header is the HMAC of the body, or of what Signed says. A
// header that is sent several times, or lists several signatures, is good if
// one of them is: so providers bridge a change of the secret.
var hmacScheme = scheme{
	fields:   hmacFields,
	validate: validateUnstamped,
	build: func(c Config, _ Keys) Verifier {
		return newSignature(c.signatureDefaults(), newMACChecker(c))
	},
}

func validateUnstamped(c Config, f *eventhook.Faults) {
	if m := validateMAC(c.signatureDefaults(), f); !m.hasBody || m.has(timestamp) {
		f.Add("signed", "want a template with {body}, and without {timestamp}, which is for timestamped_hmac")
	}
}

// timestampedScheme is an HMAC of a timestamp and the body. The timestamp
// stands beside the signatures in one header, "t=1700000000,v1=…,v1=…", which
// is the default, or in a header of its own, or in the body.
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
	validateStamp(c, f)
	if !m.hasBody || (!m.has(timestamp) && !m.has(headerList) && c.TimestampPath == "") {
		f.Add("signed", "want a template with {body} and {timestamp}: what is not signed proves nothing")
	}
	if c.TimestampPath != "" && m.has(timestamp) {
		f.Add("signed", "leave {timestamp} out: the body holds it")
	}
	if c.TimestampHeader != "" || c.TimestampPath != "" {
		if c.TimestampKey != "" || c.SignatureKey != "" {
			f.Add("timestamp_key", "the timestamp is not in the list of signatures")
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
		f.Add("signature_key", "the same as timestamp_key")
	}
	if c.Prefix != "" {
		f.Add("prefix", "the signatures have a name already")
	}
	if c.HeaderPerSecret || len(c.AlsoHeaders) > 0 {
		f.Add("also_headers", "not with the timestamp in the list of signatures")
	}
}

// hashScheme is the plain hash of secret and message. It is weaker than an
// HMAC: what follows the message may be extended by who does not know the
// secret. It is there for who cannot choose (HubSpot v1 and v2).
var hashScheme = scheme{
	fields:   hmacFields,
	validate: validateUnstamped,
	build: func(c Config, _ Keys) Verifier {
		check := newMACChecker(c)
		check.plain = true
		return newSignature(c.signatureDefaults(), check)
	},
}

// bodyHMACScheme: a field of the body, in JSON or a form, is the HMAC of other
// fields. What is not among them may be changed by anybody, so the signature
// may have to be the idempotency key: unless a Separator is configured, there
// is one, with nothing around it.
var bodyHMACScheme = scheme{
	fields: slices.Concat([]string{"path", "items", "prefix", "separator", "secrets", "secret_encoding"}, signatureFields),
	validate: func(c Config, f *eventhook.Faults) {
		validatePath("path", c.Path, f)
		if c.Items != "" {
			validateOnePath("items", c.Items, true, f)
		}
		if m := validateMAC(c.signatureDefaults(), f); m.hasBody || !m.has(field) || m.has(timestamp) {
			f.Add("signed", "want a template with {field.<path>}, and without {body}, which holds the signature, and {timestamp}")
		}
	},
	build: func(c Config, _ Keys) Verifier {
		v := newSignature(c.signatureDefaults(), newMACChecker(c))
		v.adapt(func(o *outline) { o.list = c.Separator })
		return v
	},
	coversBody: never,
}
