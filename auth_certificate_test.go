package eventhook_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"slices"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
)

// rsaPair returns a certificate with an RSA key of many primes, which is generated quickly, and
// the key in PEM.
func rsaPair(t *testing.T, bits, primes int) (certificate, key string) {
	t.Helper()
	private, err := rsa.GenerateMultiPrimeKey(rand.Reader, primes, bits) //nolint:staticcheck // the keys that Validate refuses
	if err != nil {
		t.Fatal(err)
	}
	signer, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "gateway"}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded}))
}

// A connection cannot be stopped while it signs or verifies, so keys that take long are refused.
func TestRSAKeysOfAuthAreBounded(t *testing.T) {
	certificate, key := keyPair(t)
	plain, plainKey := rsaPair(t, 2048, 2)
	many, manyKey := rsaPair(t, 2048, 3)
	large, largeKey := rsaPair(t, 9216, 18)
	for claim, c := range map[string]struct {
		certificate, key, ca string
		at                   []string
	}{
		"usual keys":         {plain, plainKey, plain + certificate, nil},
		"a key of 3 primes":  {many, manyKey, "", []string{"private_key"}},
		"a large key":        {large, largeKey, "", []string{"private_key"}},
		"a large authority":  {certificate, key, large, []string{"ca"}},
		"one large of three": {certificate, key, plain + large + certificate, []string{"ca"}},
	} {
		var at []string
		for _, f := range (eventhook.Auth{Type: eventhook.AuthMTLS, Certificate: c.certificate, PrivateKey: c.key, CA: c.ca}).Validate() {
			at = append(at, f.Location)
		}
		if !slices.Equal(at, c.at) {
			t.Errorf("%s: faults at %v, want %v", claim, at, c.at)
		}
	}
}
