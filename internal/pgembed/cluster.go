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

// clusterMajor returns the PostgreSQL version that made the cluster, or 0 if
// there is no cluster yet.
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

// initCluster makes the cluster unless it exists. It is made beside its place
// and moved there when it is whole and on disk, so a cluster either exists or
// does not, whenever the gateway is killed.
func (s *Server) initCluster(ctx context.Context) error {
	major, err := clusterMajor(s.place.cluster)
	if err != nil {
		return err
	}
	if major != 0 {
		return s.giveRootsCluster()
	}
	if err := makeHome(s.place.home); err != nil {
		return err
	}
	s.sweepStaging()
	staging, err := os.MkdirTemp(s.place.home, stagingPattern)
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(staging) }() // gone by then, if all went well
	if err := s.place.as.give(staging); err != nil {
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

// sweepStaging removes what a killed start left. An initdb that outlived its
// gateway may still write there; the next start gets the rest.
func (s *Server) sweepStaging() {
	old, _ := filepath.Glob(filepath.Join(s.place.home, stagingPattern))
	for _, dir := range old {
		_ = os.RemoveAll(dir)
	}
}

// giveRootsCluster corrects the owner of a cluster that was copied by root.
func (s *Server) giveRootsCluster() error {
	owner, err := ownerOf(filepath.Join(s.place.cluster, "PG_VERSION"))
	if err != nil || owner.uid != 0 {
		return err
	}
	return s.place.as.give(s.place.cluster)
}

// initdb trusts whoever reaches the socket: its directory is closed to all but
// the user who may read the cluster's files anyway, and a password could not
// tell those apart. TCP is off and would be rejected.
func (s *Server) initdb(ctx context.Context, dir string) error {
	args := []string{
		"-D", dir, "-U", superuser, "--encoding=UTF8", "--locale=C",
		"--auth-local=trust", "--auth-host=reject",
	}
	if s.opts.Settings["fsync"] == "off" {
		args = append(args, "--no-sync")
	}
	s.opts.Log.Info("making the PostgreSQL cluster", "cluster", s.place.cluster, "user", s.place.as.name)
	cmd := exec.CommandContext(ctx, filepath.Join(s.bin, "initdb"), args...)
	s.prepare(cmd)
	var out []byte
	var err error
	proc.Unprivileged(func() { out, err = cmd.CombinedOutput() })
	if err != nil {
		return fmt.Errorf("initdb: %w:\n%s", err, lastLines(out))
	}
	return nil
}

// environment is the whole environment of PostgreSQL's programs. Ours holds
// keys, and settings for other servers.
var environment = []string{
	"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", "TZ=UTC",
}

// prepare makes cmd run as PostgreSQL's user, away from the terminal and
// without our environment.
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
