package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/eventhook/eventhook/configs"
	"github.com/eventhook/eventhook/internal/cli/clitest"
)

func TestKeysAreStoredAcrossStarts(t *testing.T) {
	c := configs.Default()
	c.DataDir = t.TempDir()
	first, err := openKeys(c)
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := first.ring.Seal("text", "place")
	if err != nil {
		t.Fatal(err)
	}
	second, err := openKeys(c)
	if err != nil {
		t.Fatal(err)
	}
	if second.admin[0].Reveal() != first.admin[0].Reveal() || !strings.HasPrefix(first.admin[0].Reveal(), "ehk_") {
		t.Error("the second start has another admin key than the first")
	}
	if text, err := second.ring.Open(sealed, "place"); text != "text" || err != nil {
		t.Errorf("the second start opens the sealed text of the first as %q, %v", text, err)
	}
	for _, name := range []string{"admin.key", "encryption.key"} {
		clitest.WantOwnerOnly(t, filepath.Join(c.DataDir, name))
	}
}

func TestConfiguredKeysHavePrecedence(t *testing.T) {
	c := configs.Default()
	c.DataDir, c.AdminKey, c.EncryptionKeys = t.TempDir(), testAdminKey, []string{testEncryptionKey}
	k, err := openKeys(c)
	if err != nil || k.admin[0].Reveal() != testAdminKey {
		t.Errorf("got %v, want the configured admin key", err)
	}
	clitest.WantFiles(t, c.DataDir)
}
