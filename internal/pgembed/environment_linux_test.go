package pgembed

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/eventhook/eventhook/internal/proc"
)

// PostgreSQL runs what its superuser writes, so it must find no key of the
// gateway in its environment and gain no privileges.
func TestPostgreSQLHasNoSecretAndNoPrivileges(t *testing.T) {
	t.Setenv("EVENTHOOK_ENCRYPTION_KEYS", "a-secret")
	t.Setenv("PGPASSWORD", "a-secret")
	s := start1(t, Options{DataDir: dataDir(t)})
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", s.PID()))
	check(t, err)
	got := strings.TrimRight(string(environ), "\x00")
	if want := strings.Join(environment, "\x00"); got != want {
		t.Errorf("environment of PostgreSQL: got %q, want %q", got, want)
	}
	for _, pid := range append(proc.Children(s.PID()), s.PID()) {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
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
