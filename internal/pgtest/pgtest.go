// Package pgtest gives each test a migrated PostgreSQL database of its own. It is for tests
// only.
//
// It uses the server at EVENTHOOK_TEST_DATABASE_URL if that is set. Otherwise it starts one
// from the programs on this machine, or in a container. A server that it started serves one
// test process and ends with it. The package never touches a database that it did not
// create.
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

// limit is the timeout of each step. It allows for a busy machine.
const limit = 2 * time.Minute

// Main runs a package's tests, stops the server that they used, and exits. A package whose
// tests call New needs
//
//	func TestMain(m *testing.M) { pgtest.Main(m) }
//
// After the tests, Main calls the functions after.
func Main(m *testing.M, after ...func()) {
	code := m.Run()
	for _, f := range after {
		f()
	}
	if err := shared.stop(); err != nil {
		fmt.Fprintln(os.Stderr, "pgtest:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// New returns the URL of a new migrated database for the test. The database is dropped when
// the test ends, and its open connections are closed. If there is no server, the test fails
// with a message that names the programs to install.
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

// serverSettings are the settings of the servers of NewServer and NewReplica.
var serverSettings = map[string]string{"shared_buffers": "64MB"}

// NewServer returns a new server for the test with the migrated database pgembed.Database. It
// is as durable as in production, and the test may stop, kill and restart it. It requires
// PostgreSQL's programs on this machine. It is stopped and removed when the test ends.
func NewServer(t testing.TB) *pgembed.Server {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	s, discard, err := startEmbedded(ctx, os.TempDir(), serverSettings)
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
