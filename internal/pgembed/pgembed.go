// Package pgembed runs a private PostgreSQL for a gateway that was started without a
// database. It needs no configuration and is not reachable from a network.
//
// The cluster lives in the data folder and is as durable as any PostgreSQL. One live process
// owns it through a file lock, and further processes attach to it. If the owner is killed,
// the postmaster continues and the next Start adopts it. The package never touches a cluster
// that it did not create, never listens on TCP and never runs PostgreSQL as root.
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

// Database is the name of the database that Start creates, and superuser the role that owns
// it.
const (
	Database  = "eventhook"
	superuser = "eventhook"
)

// Options configure a Server.
type Options struct {
	// DataDir is the gateway's data folder. Start creates it if necessary. The cluster is
	// in DataDir/postgres, and its log is DataDir/postgres.log.
	DataDir string
	// Settings are settings of postgresql.conf that override the defaults. With fsync=off
	// a new cluster is not synced to disk either. That is for tests only.
	Settings map[string]string
	// DieWithParent ends PostgreSQL when this process ends, even by a crash. It is for
	// tests, and has an effect on Linux only.
	DieWithParent bool
	// Log logs starts, stops and downloads. If nil, nothing is logged.
	Log *slog.Logger
}

// Server is a running PostgreSQL. Its methods may be called concurrently.
type Server struct {
	opts  Options
	owned bool

	mu    sync.Mutex
	place place
	bin   string
	lock  *os.File // nil if the server is not owned or stopped
	proc  process
}

// Start returns a server that accepts connections and has the database "eventhook". It
// creates the cluster if there is none. If another live process owns the data folder, Start
// waits for the server of that process and attaches to it, or takes over if the owner ends
// meanwhile. On error, Start ends all processes that it started.
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

// own starts the server. The caller must hold the lock.
func (s *Server) own(ctx context.Context) error {
	var err error
	if s.place, err = locate(s.opts.DataDir); err != nil {
		return err
	}
	if s.place.home != s.opts.DataDir {
		s.opts.Log.Info("PostgreSQL's user cannot enter the data folder, so the cluster is stored elsewhere",
			"user", s.place.as.name, "cluster", s.place.cluster)
	}
	if s.bin, err = s.binaries(ctx); err != nil {
		return err
	}
	if err := s.initCluster(ctx); err != nil {
		return fmt.Errorf("create the PostgreSQL cluster: %w", err)
	}
	if err := s.run(ctx); err != nil {
		return fmt.Errorf("start PostgreSQL: %w", err)
	}
	return nil
}

// DSN returns the URL of a database of this server. The database does not have to exist.
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
		RawQuery: strings.ReplaceAll(query, "+", "%20"), // PostgreSQL's clients do not decode + as a space
	}
	return u.String()
}

// Owned reports whether this process owns the server, so that Stop ends it. Otherwise
// another live process owns the server, and it may end with that process.
func (s *Server) Owned() bool { return s.owned }

// PID returns the process id of the postmaster.
func (s *Server) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc.pid
}

func (s *Server) unlock() {
	if s.lock != nil {
		unlock(s.lock)
		s.lock = nil
	}
}
