package pgembed

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/eventhook/eventhook/internal/proc"
)

// The superuser of PostgreSQL can run programs. They must not find the keys of the gateway in the
// environment and must not gain privileges.
func TestPostgreSQLHasNoSecretAndNoPrivileges(t *testing.T) {
	t.Setenv("EVENTHOOK_ENCRYPTION_KEYS", "a-secret")
	t.Setenv("PGPASSWORD", "a-secret")
	s := startServer(t, Options{DataDir: dataDir(t)})
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", s.PID()))
	check(t, err)
	got := strings.TrimRight(string(environ), "\x00")
	if want := strings.Join(environment, "\x00"); got != want {
		t.Errorf("environment of PostgreSQL: got %q, want %q", got, want)
	}
	for _, pid := range append(proc.Children(s.PID()), s.PID()) {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if pid != s.PID() && os.IsNotExist(err) {
			continue // the process of a connection has ended
		}
		check(t, err)
		for _, want := range []string{"NoNewPrivs:\t1\n", "CapEff:\t0000000000000000\n"} {
			if !strings.Contains(string(status), want) {
				t.Errorf("process %d: got\n%s\nwant %q", pid, status, want)
			}
		}
	}
	if got := query(t, s, `SHOW timezone`); got != "UTC" {
		t.Errorf("timezone: got %q, want UTC", got)
	}
}
