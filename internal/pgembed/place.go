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
	port = "5432" // no TCP; it is a part of the socket's name
	// maxSocketPath stays under the 104 bytes that the strictest system
	// allows for the path of a socket.
	maxSocketPath = 100
)

// fallbackHome is where the cluster of a data folder lives that PostgreSQL's
// user cannot enter. A variable for the tests.
var fallbackHome = "/var/lib/eventhook"

// place is where a cluster lives, and whose it is.
type place struct {
	home    string // contains the cluster and fetched binaries
	cluster string // PostgreSQL's data directory
	sockets string // directory of the socket
	as      account
}

// makeDataDir returns the data folder as an absolute path without links, so
// that every process names it alike. Root leaves it passable, since
// PostgreSQL's user has to get at the cluster inside; the files in it are
// closed.
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

// makeHome makes a folder and those above it, whatever the umask.
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

// locate finds the cluster of a data folder, or where to make it. An existing
// cluster always wins, and runs as the user who owns it: a change of
// permissions never swaps it for an empty one.
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
	isList := strings.Contains(p.cluster, ",") // which clients read as several hosts
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

// makeSockets makes the directory of the socket if it is not the cluster
// itself. One that somebody else made, or may look into, is refused: whoever
// reaches the socket is the superuser.
func (p place) makeSockets() error {
	if p.sockets == p.cluster {
		return nil
	}
	err := os.Mkdir(p.sockets, 0o700)
	if err == nil {
		return p.as.give(p.sockets)
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

// removeSockets removes what makeSockets made, unless it is in use.
func (p place) removeSockets() {
	if p.sockets != p.cluster {
		_ = os.Remove(p.sockets)
	}
}
