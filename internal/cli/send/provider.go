package send

import (
	"crypto"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/eventhook/eventhook/internal/cli/input"
	"github.com/eventhook/eventhook/verify"
)

// preset returns the preset of the sample, zero if it does not exist.
func (s Sample) preset() verify.Preset {
	p, _ := verify.FindPreset(s.Provider, s.Scheme)
	return p
}

// needsSecret reports whether a secret signs the sample. It is true for an unknown
// provider, which Request refuses.
func (s Sample) needsSecret() bool { return !s.preset().Verifier.SignsWithPrivateKey() }

// verifier returns the verifier of a source that accepts the sample.
func (s Sample) verifier(secret string) (verify.Config, error) {
	p, ok := verify.FindPreset(s.Provider, s.Scheme)
	if !ok {
		return verify.Config{}, s.unknown()
	}
	spec := verify.Spec{Provider: p.ID, Scheme: p.Scheme}
	switch {
	case s.needsSecret():
		spec.Secrets = []string{secret}
	case s.Key == nil:
		return verify.Config{}, privateKeyError(p)
	default:
		public, err := publicText(s.Key)
		if err != nil {
			return verify.Config{}, err
		}
		spec.PublicKeys = []string{public}
		if p.HandshakeSecret {
			spec.Secrets = []string{unused}
		}
	}
	var err error
	if spec.Options, err = s.signingOptions(p); err != nil {
		return verify.Config{}, err
	}
	resolved, faults := spec.Resolve()
	if len(faults) > 0 {
		return verify.Config{}, input.Usagef("%s: %s: %s", p.ID, faults[0].Location, faults[0].Message)
	}
	return resolved.Config, nil
}

// unused is the value of a setting that a source requires and signatures do not use.
const unused = "unused"

func (s Sample) unknown() error {
	if schemes := verify.Schemes(s.Provider); len(schemes) > 0 {
		return input.Usagef("--scheme %q, want one of %s", s.Scheme, strings.Join(schemes, ", "))
	}
	return input.Usagef("there is no sample of %q; eventhook send --help lists the providers", s.Provider)
}

// signingOptions returns the options with which the sample is signed. An option that
// the signature does not contain can be absent.
func (s Sample) signingOptions(p verify.Preset) (map[string]string, error) {
	options := maps.Clone(s.Options)
	if options == nil {
		options = map[string]string{}
	}
	for _, o := range p.Options {
		if !o.Required || options[o.Name] != "" {
			continue
		}
		if isSigned(p.Verifier, o.Name) {
			return nil, input.Usagef("--option %s=… is required: %s", o.Name, o.About)
		}
		options[o.Name] = unused
	}
	return options, nil
}

// isSigned reports whether the signed text contains an option.
func isSigned(c verify.Config, option string) bool {
	texts := append(slices.Collect(maps.Values(c.Claims)), c.Prefix, c.Signed, c.Audience)
	return strings.Contains(strings.Join(texts, " "), "{option."+option+"}")
}

// privateKeyError says how to test a provider whose private key only the provider has.
func privateKeyError(p verify.Preset) error {
	kind, c := "RSA", p.Verifier
	switch {
	case strings.HasPrefix(c.Algorithm, "ecdsa"), strings.HasPrefix(c.Algorithm, "ES"):
		kind = "EC -pkeyopt ec_paramgen_curve:P-256"
	case c.Type == "public_key" && c.Algorithm == "":
		kind = "ed25519"
	}
	create := fmt.Sprintf("eventhook source create %s-test --provider %s --public-key @test.pub", p.ID, p.ID)
	send := fmt.Sprintf("eventhook send %s --source %s-test --key-file test.pem", p.ID, p.ID)
	for _, field := range p.RequiredFields() {
		name, isOption := strings.CutPrefix(field, "options.")
		switch {
		case isOption:
			create += " --option " + name + "=…"
			send += " --option " + name + "=…"
		case field == "secrets":
			create += " --secret …"
		}
	}
	return input.Usagef(`%s signs with a private key that only the provider has. To test with a key of your own:
  openssl genpkey -algorithm %s -out test.pem
  openssl pkey -in test.pem -pubout -out test.pub
  %s
  %s`, p.ID, kind, create, send)
}

// publicText returns the public key in the form of a source's public_keys.
func publicText(key crypto.Signer) (string, error) {
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	return base64.StdEncoding.EncodeToString(der), err
}

var errKeyFile = errors.New("--key-file: want a private key in PEM, such as openssl genpkey writes")

// parseKey parses a private key in PEM: PKCS #8, or the older forms for RSA and EC.
func parseKey(raw []byte) (crypto.Signer, error) {
	block, _ := pem.Decode(raw)
	if block == nil {
		return nil, errKeyFile
	}
	for _, parse := range []func([]byte) (any, error){
		x509.ParsePKCS8PrivateKey,
		func(der []byte) (any, error) { return x509.ParsePKCS1PrivateKey(der) },
		func(der []byte) (any, error) { return x509.ParseECPrivateKey(der) },
	} {
		key, err := parse(block.Bytes)
		if signer, ok := key.(crypto.Signer); ok && err == nil {
			return signer, nil
		}
	}
	return nil, errKeyFile
}
