package clitest

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// ClearEnvironment empties the variables that configure the program for the
// duration of the test.
func ClearEnvironment(t *testing.T) {
	t.Helper()
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		if strings.HasPrefix(name, "DATABASE_") || strings.HasPrefix(name, "EVENTHOOK_") && name != "EVENTHOOK_TEST_DATABASE_URL" {
			t.Setenv(name, "") // the program treats an empty variable as one that is not set
		}
	}
}

// WriteFile writes a file into a new folder and returns its path.
func WriteFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// FreeAddress returns a loopback address, HOST:PORT, on which nothing listens.
func FreeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	return l.Addr().String()
}

// PassOn connects each client of a listener to an address. It returns when the listener is closed.
func PassOn(l net.Listener, network, address string) {
	for {
		client, err := l.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial(network, address)
		if err != nil {
			_ = client.Close()
			continue
		}
		pipe := func(to, from net.Conn) {
			_, _ = io.Copy(to, from)
			_, _ = to.Close(), from.Close()
		}
		go pipe(client, server)
		go pipe(server, client)
	}
}

// Eventually polls holds until it returns true. The test fails after two minutes,
// which is enough for slow machines.
func Eventually(t *testing.T, claim string, holds func() bool) {
	t.Helper()
	deadline := time.After(2 * time.Minute)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-deadline:
			t.Fatalf("timeout while waiting until %s", claim)
		case <-tick.C:
		}
	}
}
