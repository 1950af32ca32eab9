// Package pgembed runs a private PostgreSQL for a gateway that was started
// without a database: nothing to configure, nothing reachable from a network.
//
// The cluster lives in the data folder and is as durable as any PostgreSQL.
// One live process owns it, by a file lock; a second one attaches to it. A
// postmaster whose owner was killed goes on and is adopted by the next Start.
// The package never touches a cluster that it did not make, never listens on
// TCP and never runs PostgreSQL as root.
package pgembed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// Database is the database that Start makes, and superuser the role that owns
// it.
const (
	Database  = "eventhook"
	superuser = "eventhook"
)

// Options say where the cluster lives and how it runs.
type Options struct {
	// DataDir is the gateway's data folder; it is made if absent. The cluster
	// lives in DataDir/postgres, its log is DataDir/postgres.log.
	DataDir string
	// Settings are further settings of postgresql.conf, over ours. With
	// fsync=off the new cluster is not synced either: for tests only.
	Settings map[string]string
	// DieWithParent ends PostgreSQL when this process ends, however it ends.
	// For tests; on Linux only, elsewhere it does nothing.
	DieWithParent bool
	// Log hears what is done. Nil: nobody.
	Log *slog.Logger
}

// Server is a running PostgreSQL. Its methods may be called concurrently.
type Server struct {
	opts  Options
	owned bool

	mu    sync.Mutex
	place place
	bin   string
	lock  *os.File // held while PostgreSQL is ours and not stopped
	proc  process
}

// Start returns a server that answers and has the database "eventhook". It
// makes the cluster if there is none. If another live process owns the data
// folder, Start waits for that one's server and attaches to it, or takes over
// should the owner end meanwhile. On error nothing that it started is left
// running.
func Start(ctx context.Context, o Options) (*Server, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	dir, err := makeDataDir(o.DataDir)
	if err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	o.DataDir = dir
	for {
		s, err := startOrAttach(ctx, o)
		if err == nil || !errors.Is(err, errHeld) {
			return s, err
		}
		if pause(ctx, 50*time.Millisecond) != nil {
			return nil, fmt.Errorf("attach to PostgreSQL: %w: %w", err, context.Cause(ctx))
		}
	}
}

func startOrAttach(ctx context.Context, o Options) (*Server, error) {
	s := &Server{opts: o}
	lock, err := tryLock(filepath.Join(o.DataDir, "lock"))
	if errors.Is(err, errHeld) {
		if aerr := s.attach(ctx); aerr != nil {
			return nil, fmt.Errorf("%w, whose PostgreSQL does not answer: %w", err, aerr)
		}
		return s, nil
	}
	if err != nil {
		return nil, err
	}
	s.lock, s.owned = lock, true
	if err := s.own(ctx); err != nil {
		s.unlock()
		return nil, err
	}
	return s, nil
}

// own brings the server up; the lock is held.
func (s *Server) own(ctx context.Context) error {
	var err error
	if s.place, err = locate(s.opts.DataDir); err != nil {
		return err
	}
	if s.place.home != s.opts.DataDir {
		s.opts.Log.Info("the data folder is closed to PostgreSQL's user, so the cluster lives elsewhere",
			"user", s.place.as.name, "cluster", s.place.cluster)
	}
	if s.bin, err = s.binaries(ctx); err != nil {
		return err
	}
	if err := s.initCluster(ctx); err != nil {
		return fmt.Errorf("make the PostgreSQL cluster: %w", err)
	}
	if err := s.run(ctx); err != nil {
		return fmt.Errorf("start PostgreSQL: %w", err)
	}
	return nil
}

// DSN returns the URL of a database of this server. It need not exist.
func (s *Server) DSN(database string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dsn(database)
}

func (s *Server) dsn(database string) string {
	query := url.Values{
		"host":    {s.place.sockets},
		"port":    {port},
		"sslmode": {"disable"},
	}.Encode()
	u := url.URL{
		Scheme:   "postgres",
		User:     url.User(superuser),
		Path:     "/" + database,
		RawQuery: strings.ReplaceAll(query, "+", "%20"), // to PostgreSQL's clients a + is one, and no space
	}
	return u.String()
}

// Owned reports whether Stop ends the server. If not, another live process
// owns it, and it may end with that process.
func (s *Server) Owned() bool { return s.owned }

// PID returns the process id of the postmaster.
func (s *Server) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc.pid
}

func (s *Server) unlock() {
	if s.lock != nil {
		_ = s.lock.Close()
		s.lock = nil
	}
}
