// Package pgtest gives each test a migrated PostgreSQL database of its own.
//
// The server is the one at EVENTHOOK_TEST_DATABASE_URL, else one that is
// started from the programs on this machine, else a container. A server that
// was started here serves one test process and ends with it. The package never
// touches a database that it did not make, and is for tests only.
package pgtest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/eventhook/eventhook/internal/pgembed"
	"github.com/eventhook/eventhook/migrations"
)

// limit is how long any one step may take on a busy machine.
const limit = 2 * time.Minute

// Main runs a package's tests and then stops the server that they used. It
// does not return. A package whose tests call New has
//
//	func TestMain(m *testing.M) { pgtest.Main(m) }
func Main(m *testing.M) {
	code := m.Run()
	if err := shared.stop(); err != nil {
		fmt.Fprintln(os.Stderr, "pgtest:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// New returns the URL of a migrated database of the test's own. It is dropped,
// whoever is still connected, when the test ends. Without any server the test
// fails and says what to install.
func New(t testing.TB) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	server, err := shared.get(ctx)
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	name := "eventhook_test_" + randomHex()
	if err := server.clone(ctx, name); err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		if err := server.drop(ctx, name); err != nil {
			t.Errorf("pgtest: %v", err)
		}
	})
	return server.dsn(name)
}

// NewServer returns a server of the test's own with the migrated database
// pgembed.Database, as durable as in production, to be stopped, killed and
// restarted at will. It needs PostgreSQL's programs on this machine. It is
// ended and removed when the test ends.
func NewServer(t testing.TB) *pgembed.Server {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	s, discard, err := startEmbedded(ctx, os.TempDir(), map[string]string{"shared_buffers": "64MB"})
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	t.Cleanup(func() {
		if err := discard(); err != nil {
			t.Errorf("pgtest: %v", err)
		}
	})
	if err := migrations.Up(ctx, s.DSN(pgembed.Database)); err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	return s
}

func randomHex() string {
	b := make([]byte, 8)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}
