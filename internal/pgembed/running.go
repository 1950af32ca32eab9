package pgembed

import (
	"errors"
	"io/fs"
	"path/filepath"
)

// Running returns the URL of the database "eventhook" of the server that runs on a data folder, or
// "" if none runs there. It changes and starts nothing.
func Running(dataDir string) (string, error) {
	dir, err := filepath.Abs(dataDir)
	if err != nil {
		return "", err
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return "", err
	}
	p, err := locate(dir)
	if err != nil {
		return "", err
	}
	pm, isLive := livePostmaster(p.cluster)
	if !isLive {
		return "", nil
	}
	p.sockets = pm.sockets
	return (&Server{place: p}).dsn(Database), nil
}
