// Package certfiletest creates certificates for tests.
package certfiletest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Files are the names of the files of a certificate and its key.
type Files struct{ Cert, Key string }

// New writes a certificate of this host, which signs itself, into a new folder.
func New(t testing.TB, name string, expiresAt time.Time) Files {
	t.Helper()
	dir := t.TempDir()
	f := Files{filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")}
	f.Write(t, name, expiresAt)
	return f
}

// Write replaces both files by another certificate of this host, with another key.
func (f Files) Write(t testing.TB, name string, expiresAt time.Time) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{"localhost"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}, NotBefore: expiresAt.AddDate(-1, 0, 0), NotAfter: expiresAt,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign}
	raw, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	write(t, f.Cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}))
	write(t, f.Key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
}

// Pool returns the certificate as an authority.
func (f Files) Pool(t testing.TB) *x509.CertPool {
	t.Helper()
	raw, err := os.ReadFile(f.Cert)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(raw)
	return pool
}

// Break replaces the certificate by a text.
func (f Files) Break(t testing.TB) { write(t, f.Cert, []byte("no certificate")) }

func write(t testing.TB, name string, raw []byte) {
	t.Helper()
	if err := os.WriteFile(name, raw, 0o600); err != nil {
		t.Fatal(err)
	}
}
