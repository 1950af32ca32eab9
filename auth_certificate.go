package eventhook

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"strings"
)

// The bounds of the certificates of a chain, and of a CA.
const maxChain, maxAuthorities = 10, 100

// The faults of certificates. They contain no part of the texts.
var (
	errNoCertificate = errors.New("must be a certificate in PEM, which begins with -----BEGIN CERTIFICATE-----")
	errNoKey         = errors.New("must be the private key of the certificate in PEM, not encrypted")
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
	switch leaf, _ := pem.Decode([]byte(a.Certificate)); {
	case leaf == nil || leaf.Type != "CERTIFICATE" || !isCertificate(leaf.Bytes):
		f.Add("certificate", "%s", errNoCertificate)
	default:
		if _, err := tls.X509KeyPair([]byte(a.Certificate), []byte(a.PrivateKey)); err != nil {
			f.Add("private_key", "%s", errNoKey)
		}
	}
}

func isCertificate(der []byte) bool {
	_, err := x509.ParseCertificate(der)
	return err == nil
}
