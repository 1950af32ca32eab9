package client

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"testing"
)

func TestTheClientIsMadeOfTheDocumentInTheRepository(t *testing.T) {
	hash := sha256.New()
	for _, name := range []string{"../docs/openapi.json", "oapi-codegen.yaml", "overlay.yaml", "methods.tmpl"} { // as in the Makefile
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		hash.Write(raw)
	}
	if want := hex.EncodeToString(hash.Sum(nil)); madeFrom != want {
		t.Errorf("client.gen.go is made from %s, and what is there is %s: run make generate", madeFrom, want)
	}
}
