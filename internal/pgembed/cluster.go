package pgembed

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/eventhook/eventhook/internal/proc"
)

// clusterMajor returns the major version of PostgreSQL that created the cluster, or 0 if the
// cluster does not exist.
func clusterMajor(cluster string) (int, error) {
	b, err := os.ReadFile(filepath.Join(cluster, "PG_VERSION"))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("version of the cluster: %w", err)
	}
	major, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return 0, fmt.Errorf("version of the cluster: %w", err)
	}
	return major, nil
}

// initCluster creates the cluster unless it exists. It creates the cluster in a staging folder
// and renames the folder once the cluster is complete and on disk. A cluster is therefore
// complete or absent, even if the gateway is killed.
func (s *Server) initCluster(ctx context.Context) error {
	major, err := clusterMajor(s.place.cluster)
	if err != nil {
		return err
	}
	if major != 0 {
		return s.chownRootsCluster()
	}
	if err := makeHome(s.place.home); err != nil {
		return err
	}
	removeLeftovers(s.place.home, stagingPattern)
	staging, err := os.MkdirTemp(s.place.home, stagingPattern)
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(staging) }() // after the rename there is nothing to remove
	if err := s.place.as.chown(staging); err != nil {
		return err
	}
	if err := s.initdb(ctx, staging); err != nil {
		return err
	}
	if err := os.Rename(staging, s.place.cluster); err != nil {
		return err
	}
	return syncDir(s.place.home)
}

const stagingPattern = "postgres.init-*"

// removeLeftovers removes the temporary folders of starts that were killed. An initdb that
// outlived its gateway may still write there; the next start removes the remaining files.
func removeLeftovers(home, pattern string) {
	old, _ := filepath.Glob(filepath.Join(home, pattern))
	for _, dir := range old {
		_ = os.RemoveAll(dir)
	}
}

// chownRootsCluster corrects the owner of a cluster that root has copied.
func (s *Server) chownRootsCluster() error {
	owner, err := ownerOf(filepath.Join(s.place.cluster, "PG_VERSION"))
	if err != nil || owner.uid != 0 {
		return err
	}
	return s.place.as.chown(s.place.cluster)
}

// initdb runs initdb. Connections through the socket need no password: only the user who can
// read the cluster's files anyway may enter the directory of the socket. TCP is off, and
// connections over TCP would be rejected.
func (s *Server) initdb(ctx context.Context, dir string) error {
	args := []string{
		"-D", dir, "-U", superuser, "--encoding=UTF8", "--locale=C",
		"--auth-local=trust", "--auth-host=reject",
	}
	if s.opts.Settings["fsync"] == "off" {
		args = append(args, "--no-sync")
	}
	s.opts.Log.Info("creating the PostgreSQL cluster", "cluster", s.place.cluster, "user", s.place.as.name)
	cmd := exec.CommandContext(ctx, filepath.Join(s.bin, "initdb"), args...)
	s.prepare(cmd)
	var out []byte
	var err error
	proc.Unprivileged(func() { out, err = cmd.CombinedOutput() })
	if err != nil {
		return fmt.Errorf("initdb: %w:\n%s", err, tail(out))
	}
	return nil
}

// environment is the complete environment of PostgreSQL's programs. The environment of this
// process is not passed on: it may contain keys and settings for other servers.
var environment = []string{
	"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", "TZ=UTC",
}

// prepare makes cmd run as PostgreSQL's user, in a session of its own and with environment.
func (s *Server) prepare(cmd *exec.Cmd) {
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: s.place.as.credential()}
	cmd.Env = environment
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
