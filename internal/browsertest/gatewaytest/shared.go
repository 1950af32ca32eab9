package gatewaytest

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/eventhook/eventhook/internal/browsertest"
	"github.com/eventhook/eventhook/internal/pgtest"
)

// Main runs a package's tests, stops the gateway, the browser and the database server that they
// used, and exits.
func Main(m *testing.M) {
	pgtest.Main(m, stopShared, browsertest.Stop, removeProgram)
}

func removeProgram() { _ = os.RemoveAll(built.dir) }

// shared is the gateway of this test binary.
var shared struct {
	mu      sync.Mutex
	gateway *Gateway // nil before the start
	scope   binaryScope
}

// Shared returns a gateway that all tests of the binary share. It starts in the first call.
func Shared(t testing.TB) *Gateway {
	t.Helper()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.gateway == nil {
		shared.scope.TB = t
		shared.gateway = Start(&shared.scope)
		shared.scope.started = true
	}
	return shared.gateway
}

func stopShared() {
	for _, cleanup := range slices.Backward(shared.scope.cleanups) {
		cleanup()
	}
}

// binaryScope is a test whose cleanups run after all tests. Until the gateway has started, its other
// methods are those of the test that starts the gateway.
type binaryScope struct {
	testing.TB
	started  bool
	cleanups []func()
}

func (s *binaryScope) Cleanup(f func()) { s.cleanups = append(s.cleanups, f) }

func (s *binaryScope) Helper() {
	if !s.started {
		s.TB.Helper()
	}
}

// Errorf reports faults of the cleanups, when no test runs.
func (s *binaryScope) Errorf(format string, args ...any) {
	if !s.started {
		s.TB.Errorf(format, args...)
		return
	}
	fmt.Fprintf(os.Stderr, format+"\n", args...)
}
