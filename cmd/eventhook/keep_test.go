package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/eventhook/eventhook/configs"
)

func wantOwnersOnly(t *testing.T, path string) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if mode := info.Mode().Perm(); mode != 0o600 {
		t.Errorf("%s has the mode %o, want 600", filepath.Base(path), mode)
	}
}

// wantOnly holds that a folder has these files and no left-overs.
func wantOnly(t *testing.T, dir string, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if fmt.Sprint(got) != fmt.Sprint(names) {
		t.Errorf("the folder holds %v, want %v", got, names)
	}
}

func TestKeptTextIsMadeOnce(t *testing.T) {
	const starts = 32
	dir := t.TempDir()
	var mu sync.Mutex
	made, texts := 0, map[string]bool{}
	var all sync.WaitGroup
	begin := make(chan struct{})
	for n := range starts {
		all.Go(func() {
			<-begin
			text, fresh, err := keepText(dir, "x.key", func() string { return fmt.Sprint("key ", n) })
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			if texts[text] = true; fresh {
				made++
			}
		})
	}
	close(begin)
	all.Wait()
	if made != 1 || len(texts) != 1 {
		t.Errorf("%d starts at once made %d keys and got %v, want one", starts, made, texts)
	}
	wantOwnersOnly(t, filepath.Join(dir, "x.key"))
	wantOnly(t, dir, "x.key")
}

func TestKeptTextIsRead(t *testing.T) {
	dir := t.TempDir()
	never := func() string {
		t.Error("made anew")
		return ""
	}
	if err := os.WriteFile(filepath.Join(dir, "x.key"), []byte("  by hand \r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if text, made, err := keepText(dir, "x.key", never); text != "by hand" || made || err != nil {
		t.Errorf("got %q, %v, %v; want what is there", text, made, err)
	}
	if _, _, err := keepText(filepath.Join(dir, "x.key"), "y.key", never); err == nil || strings.Contains(err.Error(), "by hand") {
		t.Errorf("got %v for a folder that is a file, want an error without its text", err)
	}
}

func TestKeysAreKeptAcrossStarts(t *testing.T) {
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
	if second.admin.Reveal() != first.admin.Reveal() || !strings.HasPrefix(first.admin.Reveal(), "ehk_") {
		t.Error("the second start has another admin key than the first")
	}
	if text, err := second.ring.Open(sealed, "place"); text != "text" || err != nil {
		t.Errorf("the second start opens what the first has sealed as %q, %v", text, err)
	}
	for _, name := range []string{"admin.key", "encryption.key"} {
		wantOwnersOnly(t, filepath.Join(c.DataDir, name))
	}
}

func TestConfiguredKeysGoFirst(t *testing.T) {
	c := configs.Default()
	c.DataDir, c.AdminKey, c.EncryptionKeys = t.TempDir(), testAdminKey, []string{testEncryptionKey}
	k, err := openKeys(c)
	if err != nil || k.admin.Reveal() != testAdminKey {
		t.Errorf("got %v, want the configured admin key", err)
	}
	wantOnly(t, c.DataDir)
}

func TestMadeSecretsAreKeptAcrossStarts(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("FROM_OUTSIDE", "given")
	t.Setenv("EMPTY", "")
	names := []string{"ONE", "TWO", "EMPTY", "FROM_OUTSIDE"}
	start := func() map[string]string {
		t.Helper()
		s, err := openSecrets(dir)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for _, name := range names {
			v, ok := s.lookup(name)
			if again, _ := s.lookup(name); !ok || v == "" || again != v {
				t.Errorf("%s is %q, %v and then %q", name, v, ok, again)
			}
			got[name] = v
		}
		if err := s.save(); err != nil {
			t.Fatal(err)
		}
		return got
	}
	first := start()
	if first["ONE"] == first["TWO"] || len(first["ONE"]) < 32 || first["FROM_OUTSIDE"] != "given" {
		t.Errorf("got %v, want secrets of their own, and the one that is set", first)
	}
	if second := start(); fmt.Sprint(second) != fmt.Sprint(first) {
		t.Errorf("the second start has %v, the first had %v", second, first)
	}
	path := filepath.Join(dir, secretsFile)
	wantOwnersOnly(t, path)
	wantOnly(t, dir, secretsFile)
	raw, err := os.ReadFile(path)
	if err != nil || strings.Contains(string(raw), "given") {
		t.Errorf("it holds %s (%v), want nothing that is set outside", raw, err)
	}
}
