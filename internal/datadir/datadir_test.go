package datadir

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/eventhook/eventhook/internal/cli/clitest"
)

func TestReadOrCreateCreatesOnce(t *testing.T) {
	const starts = 32
	dir := t.TempDir()
	var mu sync.Mutex
	createdCount, texts := 0, map[string]bool{}
	var all sync.WaitGroup
	begin := make(chan struct{})
	for n := range starts {
		all.Go(func() {
			<-begin
			text, created, err := ReadOrCreate(dir, "x.key", func() string { return fmt.Sprint("key ", n) })
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			if texts[text] = true; created {
				createdCount++
			}
		})
	}
	close(begin)
	all.Wait()
	if createdCount != 1 || len(texts) != 1 {
		t.Errorf("%d concurrent calls created %d keys and returned %v, want one", starts, createdCount, texts)
	}
	clitest.WantOwnerOnly(t, filepath.Join(dir, "x.key"))
	clitest.WantFiles(t, dir, "x.key")
}

func TestReadOrCreateReadsTheFile(t *testing.T) {
	dir := t.TempDir()
	never := func() string {
		t.Error("generated again")
		return ""
	}
	if err := os.WriteFile(filepath.Join(dir, "x.key"), []byte("  by hand \r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if text, created, err := ReadOrCreate(dir, "x.key", never); text != "by hand" || created || err != nil {
		t.Errorf("got %q, %v, %v; want the text of the file", text, created, err)
	}
	if _, _, err := ReadOrCreate(filepath.Join(dir, "x.key"), "y.key", never); err == nil || strings.Contains(err.Error(), "by hand") {
		t.Errorf("got %v for a folder that is a file, want an error without its text", err)
	}
}

func TestSecretsAreStoredAcrossStarts(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("FROM_OUTSIDE", "given")
	t.Setenv("EMPTY", "")
	names := []string{"ONE", "TWO", "EMPTY", "FROM_OUTSIDE"}
	start := func() map[string]string {
		t.Helper()
		s, err := OpenSecrets(dir)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for _, name := range names {
			v, ok := s.Lookup(name)
			if again, _ := s.Lookup(name); !ok || v == "" || again != v {
				t.Errorf("%s is %q, %v at the first lookup and %q at the second", name, v, ok, again)
			}
			got[name] = v
		}
		if err := s.Save(); err != nil {
			t.Fatal(err)
		}
		return got
	}
	first := start()
	if first["ONE"] == first["TWO"] || len(first["ONE"]) < 32 || first["FROM_OUTSIDE"] != "given" {
		t.Errorf("got %v, want different secrets, and the variable that is set", first)
	}
	if second := start(); fmt.Sprint(second) != fmt.Sprint(first) {
		t.Errorf("the second start has %v, the first had %v", second, first)
	}
	path := filepath.Join(dir, secretsFile)
	clitest.WantOwnerOnly(t, path)
	clitest.WantFiles(t, dir, secretsFile)
	raw, err := os.ReadFile(path)
	if err != nil || strings.Contains(string(raw), "given") {
		t.Errorf("the file contains %s (%v), want no values of environment variables", raw, err)
	}
}
