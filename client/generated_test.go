package client

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"testing"
)

func TestClientIsGeneratedFromTheCurrentDocument(t *testing.T) {
	hash := sha256.New()
	for _, name := range []string{"../docs/openapi.json", "oapi-codegen.yaml", "overlay.yaml", "methods.tmpl"} { // as in the Makefile
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		hash.Write(raw)
	}
	if want := hex.EncodeToString(hash.Sum(nil)); generatedFrom != want {
		t.Errorf("client.gen.go was generated from sources with the hash %s, but the current hash is %s; run make generate", generatedFrom, want)
	}
}
