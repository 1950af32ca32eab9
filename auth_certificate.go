package eventhook

import (
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
)

// The bounds of the certificates of a chain, and of a CA.
const maxChain, maxAuthorities = 10, 100

// The bounds of RSA keys in bits. A key signs and verifies at each connection, and nothing stops
// that: a key of 16384 bits takes seconds. Package crypto/tls has the same bound for the
// certificates of receivers.
const maxPrivateKey, maxAuthorityKey = 4096, 8192

// The faults of certificates. They contain no part of the texts.
var (
	errNoCertificate = errors.New("must be a certificate in PEM, which begins with -----BEGIN CERTIFICATE-----")
	errNoKey         = errors.New("must be the private key of the certificate in PEM, not encrypted")
	errLargeKey      = fmt.Errorf("must be an RSA key of two primes and at most %d bits, or a key of another kind", maxPrivateKey)
	errNoAuthority   = errors.New("must be certificates in PEM, which begin with -----BEGIN CERTIFICATE-----")
)

// KeyPair returns the client certificate, and the certificate authorities that are trusted
// instead of those of the system; nil: those of the system. It is for AuthMTLS.
func (a Auth) KeyPair() (pair tls.Certificate, authorities *x509.CertPool, err error) {
	if pair, err = tls.X509KeyPair([]byte(a.Certificate), []byte(a.PrivateKey)); err != nil || a.CA == "" {
		return pair, nil, err
	}
	authorities = x509.NewCertPool()
	if !authorities.AppendCertsFromPEM([]byte(a.CA)) {
		return pair, nil, errNoAuthority
	}
	return pair, authorities, nil
}

func (a Auth) checkCertificates(f *Faults) {
	const begin = "-----BEGIN "
	if strings.Count(a.Certificate, begin) > maxChain {
		f.Add("certificate", "has more than %d certificates", maxChain)
	}
	if strings.Count(a.CA, begin) > maxAuthorities {
		f.Add("ca", "has more than %d certificates", maxAuthorities)
	}
	if a.CA != "" && !x509.NewCertPool().AppendCertsFromPEM([]byte(a.CA)) {
		f.Add("ca", "%s", errNoAuthority)
	}
	if hasLargeKey(a.CA) {
		f.Add("ca", "has an RSA key of more than %d bits", maxAuthorityKey)
	}
	switch leaf, _ := pem.Decode([]byte(a.Certificate)); {
	case leaf == nil || leaf.Type != "CERTIFICATE" || !isCertificate(leaf.Bytes):
		f.Add("certificate", "%s", errNoCertificate)
	default:
		if err := a.checkKey(); err != nil {
			f.Add("private_key", "%s", err)
		}
	}
}

func (a Auth) checkKey() error {
	pair, err := tls.X509KeyPair([]byte(a.Certificate), []byte(a.PrivateKey))
	if err != nil {
		return errNoKey
	}
	if key, ok := pair.PrivateKey.(*rsa.PrivateKey); ok && (key.N.BitLen() > maxPrivateKey || len(key.Primes) > 2) { //nolint:mnd // two primes
		return errLargeKey
	}
	return nil
}

// hasLargeKey reports whether a certificate in PEM has an RSA key beyond maxAuthorityKey.
func hasLargeKey(certificates string) bool {
	for rest := []byte(certificates); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return false
		}
		one, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			continue
		}
		if key, ok := one.PublicKey.(*rsa.PublicKey); ok && key.N.BitLen() > maxAuthorityKey {
			return true
		}
	}
}

func isCertificate(der []byte) bool {
	_, err := x509.ParseCertificate(der)
	return err == nil
}
