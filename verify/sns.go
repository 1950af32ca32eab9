package verify

import (
	"context"
	"crypto"
	"regexp"
	"slices"
	"strings"

	"github.com/eventhook/eventhook"
)

// snsScheme checks messages of Amazon SNS (docs.aws.amazon.com/sns, "Verifying the
// signatures of Amazon SNS messages"). The body is JSON for every content type. It
// contains a signature of some of its fields and the URL of the certificate. If
// public keys are configured, the certificate is not fetched. The claim TopicArn
// restricts the source to a topic. MessageAttributes are not signed.
var snsScheme = scheme{
	fields: []string{"public_keys", "claims"},
	validate: func(c Config, f *eventhook.Faults) {
		c.Algorithm = "rsa_sha256"
		validateKeys(c, f)
		for name := range c.Claims {
			if name != "TopicArn" {
				f.Add("claims", "%q, want TopicArn", name)
			}
		}
	},
	build: func(c Config, keys Keys) Verifier {
		static := staticKeys(c.PublicKeys)
		return &snsVerifier{topic: c.Claims["TopicArn"], check: algorithm.check,
			certificate: certificateRule{isTrusted: isSNSCertificate, keys: keys, static: static}}
	},
	coversBody: never,
}

type snsVerifier struct {
	topic       string
	certificate certificateRule
	check       func(a algorithm, key crypto.PublicKey, message, digest, signature []byte) bool
}

func (a algorithm) check(key crypto.PublicKey, message, digest, signature []byte) bool {
	return a.verify(key, message, digest, signature)
}

// CPUCost adds the costs of parsing the body, of the signature, and of fetching a
// certificate.
func (v *snsVerifier) CPUCost(r *Request) int {
	work := viewWork(r) + len(r.Body)/hashedUnit
	if len(v.certificate.static) > 0 {
		return work + worstKeyWork(v.certificate.static, 1)
	}
	return work + rsaWork + fetchUnits
}

// Regions have names such as us-west-2 and us-gov-east-1. Chinese regions have a
// domain of their own. Other hosts, such as sns.s3-us-west-2.amazonaws.com, can
// belong to any customer's storage and must not match.
var (
	snsHost = regexp.MustCompile(`^sns\.[a-z]{2}(-gov|-iso[a-z]?)?-(north|south|east|west|central|northeast|northwest|southeast|southwest)-[1-9][0-9]?\.amazonaws\.com(\.cn)?$`)
	snsPath = regexp.MustCompile(`^/SimpleNotificationService-[0-9a-fA-F]{1,64}\.pem$`)
)

func isSNSCertificate(host, path string) bool { return IsSNSHost(host) && snsPath.MatchString(path) }

// IsSNSHost reports whether host, in lower case, is a host of Amazon SNS.
// Certificates and confirmations are requested from these hosts only.
func IsSNSHost(host string) bool {
	return snsHost.MatchString(host) && strings.HasPrefix(host, "sns.cn-") == strings.HasSuffix(host, ".cn")
}

// snsSigned are the signed fields by message type, in the order of the signed text.
var snsSigned = map[string][]string{
	"Notification":             {"Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type"},
	"SubscriptionConfirmation": {"Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type"},
	"UnsubscribeConfirmation":  {"Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type"},
}

// snsFields are the fields that are read, and snsPlaces their places by name.
var snsFields, snsPlaces = func() (*fieldSet, map[string]alternatives) {
	set, places := newFieldSet(), map[string]alternatives{}
	for _, name := range slices.Concat([]string{"SignatureVersion", "Signature", "SigningCertURL"}, snsSigned["Notification"],
		snsSigned["SubscriptionConfirmation"]) {
		places[name] = set.addAll(fieldPath{{name}})
	}
	return set, places
}()

// snsAlgorithms are the algorithms by signature version.
var snsAlgorithms = map[string]algorithm{"1": algorithms["rsa_sha1"], "2": algorithms["rsa_sha256"]}

var (
	errSNSType      = &Error{ReasonMalformed, "the body's Type is not a message type of SNS"}
	errSNSVersion   = &Error{ReasonMalformed, "the body's SignatureVersion is not 1 or 2"}
	errSNSSignature = &Error{ReasonEncoding, "the body's Signature is not a base64-encoded RSA signature"}
	errSNSMissing   = &Error{ReasonMissingField, "a signed field is missing in the body"}
	errSNSLine      = &Error{ReasonMalformed, "a signed field contains a line break"}
	errSNSTopic     = &Error{ReasonMismatch, "the TopicArn is not the configured topic"}
	errSNSMismatch  = &Error{ReasonMismatch, "the certificate's key does not match the signature"}
)

func (v *snsVerifier) Verify(ctx context.Context, r *Request) error {
	return orNil(v.verify(ctx, r))
}

func (v *snsVerifier) verify(ctx context.Context, r *Request) *Error {
	plain := *r
	plain.Header = nil // SNS sends JSON with the content type text/plain
	view, err := viewOf(&plain)
	if err != nil {
		return err
	}
	found := snsFields.scan(nil, view.json.Raw)
	get := func(name string) string {
		text, bad := snsPlaces[name].text(found)
		if bad != nil {
			err = bad
		}
		return text
	}
	message, bad := snsMessage(get)
	algorithm, known := snsAlgorithms[get("SignatureVersion")]
	sent := get("Signature")
	signature, noBase64 := strictBase64.DecodeString(sent)
	certURL, topic := get("SigningCertURL"), get("TopicArn")
	switch {
	case err != nil:
		return err
	case bad != nil:
		return bad
	case !known:
		return errSNSVersion
	case noBase64 != nil || strictBase64.EncodedLen(len(signature)) != len(sent) || len(signature) < algorithm.minSize || len(signature) > algorithm.maxSize:
		return errSNSSignature
	case v.topic != "" && topic != v.topic:
		return errSNSTopic // checked before a certificate is fetched
	}
	keys, bad := v.certificate.at(ctx, certURL, r.At)
	if bad != nil {
		return bad
	}
	digest, tries := digestOf(algorithm.hash, message), keyTries(maxKeyWork)
	matches := func(k Key) bool {
		return isRSA(k.Public) && tries.take(k.Public) && v.check(algorithm, k.Public, message, digest, signature)
	}
	if !slices.ContainsFunc(keys, matches) {
		return errSNSMismatch
	}
	return nil
}

// snsMessage returns the signed text: "name\nvalue\n" for each signed field.
// Subject is optional.
func snsMessage(get func(string) string) ([]byte, *Error) {
	fields, ok := snsSigned[get("Type")]
	if !ok {
		return nil, errSNSType
	}
	var b []byte
	for _, name := range fields {
		value := get(name)
		switch {
		case value == "" && name == "Subject":
			continue
		case value == "" && name != "Message":
			return nil, errSNSMissing
		case strings.Contains(value, "\n") && name != "Message":
			return nil, errSNSLine // the value could imitate the next field
		}
		b = append(append(append(append(b, name...), '\n'), value...), '\n')
	}
	return b, nil
}

// sign adds the signature, and the URL of a certificate if there is none.
func (v *snsVerifier) sign(_ Config, r *Request, key crypto.Signer) error {
	plain := Request{Body: r.Body}
	view, err := viewOf(&plain)
	if err != nil {
		return err
	}
	message, err := snsMessage(func(name string) string {
		text, _ := view.text(fieldPath{{name}}) // the verifier refuses a repeated field
		return text
	})
	if err != nil {
		return err
	}
	const version, certificate = "2", "https://sns.us-east-1.amazonaws.com/SimpleNotificationService-0000000000000000.pem"
	signature, bad := snsAlgorithms[version].sign(key, message)
	if bad != nil {
		return bad
	}
	fields := map[string]string{"SignatureVersion": version, "SigningCertURL": certificate, "Signature": inBase64.encode(signature)}
	for name, value := range fields {
		if bad := setFields(&plain, []string{name}, value); bad != nil {
			return bad
		}
	}
	r.Body = plain.Body
	return nil
}
