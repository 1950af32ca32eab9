package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/eventhook/eventhook/internal/pgembed"
)

// NewReplica returns a new streaming replica of a server of NewServer, with the same databases.
// It is stopped and removed when the test ends.
func NewReplica(t testing.TB, of *pgembed.Server) *pgembed.Server {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	copied := func(dir string) error { return copyCluster(ctx, of, filepath.Join(dir, "postgres")) }
	s, discard, err := startIn(ctx, os.TempDir(), serverSettings, copied)
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	t.Cleanup(func() {
		if err := discard(); err != nil {
			t.Errorf("pgtest: %v", err)
		}
	})
	return s
}

// copyCluster copies the cluster of a running server, and configures the copy as its replica.
func copyCluster(ctx context.Context, of *pgembed.Server, into string) error {
	programs, err := pgembed.FindBinaries()
	if err != nil {
		return err
	}
	u, err := url.Parse(of.DSN(pgembed.Database))
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(programs, "pg_basebackup"), "-D", into, "-R", "-X", "stream", "-c", "fast",
		"-h", u.Query().Get("host"), "-p", u.Query().Get("port"), "-U", u.User.Username())
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("pg_basebackup: %w: %s", err, out)
	}
	locks, err := filepath.Glob(filepath.Join(into, ".s.PGSQL.*")) // of the server's socket, which is in its cluster
	for _, lock := range locks {
		err = errors.Join(err, os.Remove(lock))
	}
	return err
}
