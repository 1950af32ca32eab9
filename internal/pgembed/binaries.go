package pgembed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

const oldestMajor = 14

// ErrNoBinaries is the error if no usable PostgreSQL is installed on this machine.
var ErrNoBinaries = errors.New("PostgreSQL 14 or newer is not installed")

// installDirs are the folders in which packages install PostgreSQL's programs.
var installDirs = []string{
	"/usr/lib/postgresql/*/bin",
	"/usr/pgsql-*/bin",
	"/usr/libexec/postgresql*",
	"/usr/local/pgsql/bin",
	"/usr/local/opt/postgresql*/bin",
	"/opt/homebrew/opt/postgresql*/bin",
	"/Applications/Postgres.app/Contents/Versions/*/bin",
}

// FindBinaries returns the folder with the programs of the newest PostgreSQL on this
// machine, including PATH, or ErrNoBinaries.
func FindBinaries() (binDir string, err error) {
	dir, _, err := newest(func(int) bool { return true })
	return dir, err
}

func newest(wanted func(major int) bool) (binDir string, major int, err error) {
	for _, dir := range candidates() {
		if m := majorOf(dir); m >= oldestMajor && m > major && wanted(m) {
			binDir, major = dir, m
		}
	}
	if binDir == "" {
		return "", 0, ErrNoBinaries
	}
	return binDir, major, nil
}

func candidates() []string {
	var dirs []string
	if out, err := output("pg_config", "--bindir"); err == nil {
		dirs = append(dirs, strings.TrimSpace(out))
	}
	if path, err := exec.LookPath("postgres"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			dirs = append(dirs, filepath.Dir(path))
		}
	}
	for _, pattern := range installDirs {
		found, _ := filepath.Glob(pattern)
		dirs = append(dirs, found...)
	}
	return dirs
}

// output runs a program without the environment of this process and returns its output.
func output(program, argument string) (string, error) {
	cmd := exec.Command(program, argument)
	cmd.Env = environment
	out, err := cmd.Output()
	return string(out), err
}

var versionPattern = regexp.MustCompile(`PostgreSQL\) (\d+)`)

// majorOf returns the major version of the programs in dir, or 0 if dir has no programs.
func majorOf(dir string) int {
	if _, err := os.Stat(filepath.Join(dir, "initdb")); err != nil {
		return 0
	}
	out, err := output(filepath.Join(dir, "postgres"), "--version")
	if err != nil {
		return 0
	}
	m := versionPattern.FindStringSubmatch(out)
	if m == nil {
		return 0
	}
	major, _ := strconv.Atoi(m[1])
	return major
}

// faultOf returns why majorOf(dir) is not the expected version: a program is missing or does not
// run, for example because a library is missing, or it has the version that it prints.
func faultOf(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, "initdb")); err != nil {
		return err
	}
	out, err := output(filepath.Join(dir, "postgres"), "--version")
	if err == nil {
		return fmt.Errorf("postgres --version prints %q", strings.TrimSpace(out))
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && len(exit.Stderr) > 0 {
		err = fmt.Errorf("%w: %s", err, bytes.TrimSpace(exit.Stderr))
	}
	return fmt.Errorf("postgres --version: %w", err)
}

// binaries returns the folder of PostgreSQL's programs. An existing cluster needs the version
// that created it. A new cluster uses the newest version. If that version is not installed,
// it is downloaded.
func (s *Server) binaries(ctx context.Context) (string, error) {
	major, err := clusterMajor(s.place.cluster)
	if err != nil {
		return "", err
	}
	dir, found, err := newest(func(m int) bool { return major == 0 || m == major })
	if err == nil {
		s.opts.Log.Info("using an installed PostgreSQL", "version", found, "bin", dir)
		return dir, nil
	}
	dir, err = s.download(ctx, major)
	if err == nil {
		return dir, nil
	}
	required := "PostgreSQL 14 or newer"
	if major != 0 {
		required = fmt.Sprintf("PostgreSQL %d, which created the cluster %s", major, s.place.cluster)
	}
	return "", fmt.Errorf("%w; install %s, or set DATABASE_URL to a server", err, required)
}
