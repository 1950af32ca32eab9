package verify

import (
	"context"
	"crypto"
	"regexp"
	"slices"
	"strings"

	"github.com/eventhook/eventhook"
)

// snsScheme is Amazon SNS: the body, in JSON whatever its content type, holds
// a signature of some of its fields and the URL of the certificate
// (docs.aws.amazon.com/sns, "Verifying the signatures of Amazon SNS
// messages"). Public keys may be configured instead of fetching it. Claims
// TopicArn limits the topics. MessageAttributes are not signed.
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
			certificate: certificateRule{trusts: isSNSCertificate, keys: keys, static: static}}
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

// CPUCost counts the view, the signature, and a certificate that may be fetched.
func (v *snsVerifier) CPUCost(r *Request) int {
	work := viewWork(r) + len(r.Body)/hashedUnit
	if len(v.certificate.static) > 0 {
		return work + worstKeyWork(v.certificate.static, 1)
	}
	return work + rsaWork + fetchUnits
}

// Regions have names such as us-west-2 and us-gov-east-1; those of China have
// another domain. Hosts such as sns.s3-us-west-2.amazonaws.com are storage that
// anybody may rent.
var (
	snsHost = regexp.MustCompile(`^sns\.[a-z]{2}(-gov|-iso[a-z]?)?-(north|south|east|west|central|northeast|northwest|southeast|southwest)-[1-9][0-9]?\.amazonaws\.com(\.cn)?$`)
	snsPath = regexp.MustCompile(`^/SimpleNotificationService-[0-9a-fA-F]{1,64}\.pem$`)
)

func isSNSCertificate(host, path string) bool { return IsSNSHost(host) && snsPath.MatchString(path) }

// IsSNSHost reports whether a host, in lower case, is one of Amazon SNS's: the
// only ones that certificates and confirmations are fetched from.
func IsSNSHost(host string) bool {
	return snsHost.MatchString(host) && strings.HasPrefix(host, "sns.cn-") == strings.HasSuffix(host, ".cn")
}

// snsSigned are the fields that are signed, in this order, by type.
var snsSigned = map[string][]string{
	"Notification":             {"Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type"},
	"SubscriptionConfirmation": {"Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type"},
	"UnsubscribeConfirmation":  {"Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type"},
}

// snsFields are all fields that count, and snsPlaces where each is.
var snsFields, snsPlaces = func() (*fieldSet, map[string]alternatives) {
	set, places := newFieldSet(), map[string]alternatives{}
	for _, name := range slices.Concat([]string{"SignatureVersion", "Signature", "SigningCertURL"}, snsSigned["Notification"],
		snsSigned["SubscriptionConfirmation"]) {
		places[name] = set.addAll(fieldPath{{name}})
	}
	return set, places
}()

// snsAlgorithms are the signature versions.
var snsAlgorithms = map[string]algorithm{"1": algorithms["rsa_sha1"], "2": algorithms["rsa_sha256"]}

var (
	errSNSType      = &Error{ReasonMalformed, "the body's Type is none of SNS's"}
	errSNSVersion   = &Error{ReasonMalformed, "the body's SignatureVersion is not 1 or 2"}
	errSNSSignature = &Error{ReasonEncoding, "the body's Signature is not base64 of a signature"}
	errSNSMissing   = &Error{ReasonMissingField, "a field that is signed is not in the body"}
	errSNSLine      = &Error{ReasonMalformed, "a signed field of one line holds several"}
	errSNSTopic     = &Error{ReasonMismatch, "the TopicArn is not the configured one"}
	errSNSMismatch  = &Error{ReasonMismatch, "the certificate's key does not match"}
)

func (v *snsVerifier) Verify(ctx context.Context, r *Request) error {
	return orNil(v.verify(ctx, r))
}

func (v *snsVerifier) verify(ctx context.Context, r *Request) *Error {
	plain := *r
	plain.Header = nil // the content type is text/plain
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
	case noBase64 != nil || strictBase64.EncodedLen(len(signature)) != len(sent) || len(signature) < algorithm.least || len(signature) > algorithm.most:
		return errSNSSignature
	case v.topic != "" && topic != v.topic:
		return errSNSTopic // before a certificate is fetched
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

// snsMessage is "name\nvalue\n" of the signed fields; Subject may be absent.
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
			return nil, errSNSLine // it could play the field that follows
		}
		b = append(append(append(append(b, name...), '\n'), value...), '\n')
	}
	return b, nil
}
