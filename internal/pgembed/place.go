package pgembed

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

const (
	port = "5432" // part of the socket's name; TCP is off
	// maxSocketPath is below 104 bytes, the smallest limit of any supported system for
	// the path of a socket.
	maxSocketPath = 100
)

// fallbackHome contains the clusters of data folders that PostgreSQL's user cannot enter.
// Tests replace it.
var fallbackHome = "/var/lib/eventhook"

// place has the folders of a cluster and the user that PostgreSQL runs as.
type place struct {
	home    string // contains the cluster and downloaded programs
	cluster string // PostgreSQL's data directory
	sockets string // directory of the socket
	as      account
}

// makeDataDir creates the data folder and returns it as an absolute path without symbolic
// links, so that every process uses the same path. If this process is root, other users may
// enter the folder, because PostgreSQL's user must reach the cluster inside. They cannot read
// the files in it.
func makeDataDir(dir string) (string, error) {
	if dir == "" {
		return "", errors.New("no path given")
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if err := makeHome(abs); err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(abs)
}

// makeHome creates a folder and its parents, regardless of the umask.
func makeHome(dir string) error {
	mode := fs.FileMode(0o700)
	if os.Geteuid() == 0 {
		mode = 0o711
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := makeHome(filepath.Dir(dir)); err != nil {
		return err
	}
	if err := os.Mkdir(dir, mode); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return nil // another process was faster
		}
		return err
	}
	return os.Chmod(dir, mode)
}

// locate returns the place of the cluster of a data folder, or of a new cluster. An existing
// cluster is always used, and runs as the user who owns it. A change of permissions therefore
// never replaces it by an empty cluster.
func locate(dataDir string) (place, error) {
	for _, home := range []string{dataDir, fallback(dataDir)} {
		p := newPlace(home)
		owner, err := ownerOf(filepath.Join(p.cluster, "PG_VERSION"))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return place{}, fmt.Errorf("look at the cluster: %w", err)
		}
		if p.as, err = owner.runner(); err != nil {
			return place{}, fmt.Errorf("cluster %s: %w", p.cluster, err)
		}
		if !p.as.canEnter(home) {
			return place{}, fmt.Errorf("cluster %s: user %s may not enter %s; allow it with chmod o+x on the folders above",
				p.cluster, p.as.name, home)
		}
		return p, nil
	}
	as, err := account{}.runner()
	if err != nil {
		return place{}, err
	}
	p := newPlace(dataDir)
	if !as.canEnter(dataDir) {
		p = newPlace(fallback(dataDir))
	}
	p.as = as
	return p, nil
}

func newPlace(home string) place {
	p := place{home: home, cluster: filepath.Join(home, "postgres")}
	p.sockets = p.cluster
	isList := strings.Contains(p.cluster, ",") // clients read it as several hosts
	if isList || len(filepath.Join(p.cluster, ".s.PGSQL."+port)) > maxSocketPath {
		p.sockets = filepath.Join(os.TempDir(), "eventhook-"+hash(p.cluster))
	}
	return p
}

func fallback(dataDir string) string { return filepath.Join(fallbackHome, hash(dataDir)) }

func hash(path string) string {
	sum := sha256.Sum256([]byte(path))
	return hex.EncodeToString(sum[:6])
}

// makeSockets creates the directory of the socket, unless that is the cluster itself. It
// fails if another user owns or may enter an existing directory: every process that reaches
// the socket has the rights of the superuser.
func (p place) makeSockets() error {
	if p.sockets == p.cluster {
		return nil
	}
	err := os.Mkdir(p.sockets, 0o700)
	if err == nil {
		return p.as.chown(p.sockets)
	}
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := os.Lstat(p.sockets)
	if err != nil {
		return err
	}
	owner, err := ownerOf(p.sockets)
	if err != nil {
		return err
	}
	if !info.IsDir() || info.Mode().Perm() != 0o700 || owner.uid != p.as.uid {
		return fmt.Errorf("%s is not a private directory of user %s; remove it", p.sockets, p.as.name)
	}
	return nil
}

// removeSockets removes the directory that makeSockets created, unless it is in use.
func (p place) removeSockets() {
	if p.sockets != p.cluster {
		_ = os.Remove(p.sockets)
	}
}
