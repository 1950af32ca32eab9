package pgembed

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	readyPoll     = 20 * time.Millisecond
	duplicateName = "42P04" // duplicate_database
)

// ready waits until the server accepts connections and has the database.
func (s *Server) ready(ctx context.Context) error {
	for {
		err := s.createDatabase(ctx)
		if err == nil {
			return s.recognise()
		}
		if !s.proc.alive() {
			if err := s.retryStart(); err != nil {
				return err
			}
		}
		if pause(ctx, readyPoll) != nil {
			return fmt.Errorf("not ready: %w: %w", context.Cause(ctx), err)
		}
	}
}

// retryStart is called if the postmaster has ended before it was ready. In two cases it tries
// again. A gateway that was killed during its start may have left a postmaster that wrote its
// pid file late: retryStart adopts it. An adopted postmaster may have been shutting down, or
// orphaned backends may not have noticed yet that their postmaster has ended: retryStart
// launches a new postmaster.
func (s *Server) retryStart() error {
	if pm, ok := livePostmaster(s.place.cluster); ok {
		s.adopt(pm)
		return nil
	}
	tail := s.proc.logTail()
	if !s.proc.launched() || strings.Contains(tail, "pre-existing shared memory block") {
		return s.launch()
	}
	return fmt.Errorf("PostgreSQL ended during its start; the end of its log:\n%s", tail)
}

// recognise sets s.proc to the postmaster that answered, so that signals reach it.
func (s *Server) recognise() error {
	pm, err := readPostmaster(s.place.cluster)
	if err != nil {
		return err
	}
	if pm.pid != s.proc.pid {
		s.adopt(pm)
	}
	return nil
}

func (s *Server) adopt(pm postmaster) {
	s.place.sockets = pm.sockets
	s.proc = adopted(pm.pid, s.place.cluster)
}

// attach connects to the server of the process that owns the data folder.
func (s *Server) attach(ctx context.Context) error {
	p, err := locate(s.opts.DataDir)
	if err != nil {
		return err
	}
	pm, err := readPostmaster(p.cluster)
	if err != nil {
		return err
	}
	s.place = p
	s.adopt(pm)
	conn, err := s.connect(ctx, Database)
	if err != nil {
		return err
	}
	s.opts.Log.Info("using the PostgreSQL of another gateway process", "pid", pm.pid)
	return conn.Close(ctx)
}

func (s *Server) createDatabase(ctx context.Context) error {
	conn, err := s.connect(ctx, "postgres")
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	var exists bool
	const existsSQL = `SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)`
	if err := conn.QueryRow(ctx, existsSQL, Database).Scan(&exists); err != nil || exists {
		return err
	}
	_, err = conn.Exec(ctx, `CREATE DATABASE `+Database)
	if pg := (*pgconn.PgError)(nil); errors.As(err, &pg) && pg.Code == duplicateName {
		return nil
	}
	return err
}

func (s *Server) connect(ctx context.Context, database string) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return pgx.Connect(ctx, s.dsn(database))
}

// pause waits for d, and returns the error of ctx if ctx ends first.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
