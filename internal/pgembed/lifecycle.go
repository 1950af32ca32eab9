package pgembed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// errNotOwned is the error of Kill and Restart for a server that another process owns.
var errNotOwned = errors.New("PostgreSQL belongs to another process")

// run adopts the live postmaster of this cluster or launches one, and waits until it answers
// and the database exists. The caller must hold the lock. On error, run ends a postmaster
// that it launched.
func (s *Server) run(ctx context.Context) error {
	if pm, ok := livePostmaster(s.place.cluster); ok {
		s.opts.Log.Info("adopting the PostgreSQL of a gateway that was killed", "pid", pm.pid)
		s.adopt(pm)
	} else if err := s.launch(); err != nil {
		return err
	}
	err := s.ready(ctx)
	if err != nil && s.proc.launched() {
		_ = s.proc.quit()
	}
	if err == nil {
		s.opts.Log.Info("PostgreSQL is ready", "pid", s.proc.pid, "cluster", s.place.cluster)
	}
	return err
}

// Stop shuts PostgreSQL down. Open transactions are rolled back and committed data is
// written. Stop returns when all processes have ended. If ctx ends first, Stop forces an
// immediate shutdown, which loses no committed data, and returns the error of ctx. Stop does
// nothing if the server is stopped already or not Owned.
func (s *Server) Stop(ctx context.Context) error {
	if !s.owned {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lock == nil {
		return nil
	}
	defer s.unlock()
	defer s.place.removeSockets()
	err := s.end(ctx)
	if err != nil {
		return fmt.Errorf("stop PostgreSQL: %w", err)
	}
	s.opts.Log.Info("PostgreSQL stopped", "pid", s.proc.pid)
	return nil
}

// end requests a fast shutdown and waits. When ctx ends, it forces an immediate shutdown.
func (s *Server) end(ctx context.Context) error {
	if s.proc.alive() {
		_ = syscall.Kill(s.proc.pid, syscall.SIGINT)
	}
	err := s.proc.wait(ctx)
	if err == nil {
		return nil
	}
	return errors.Join(err, s.proc.quit())
}

// Kill ends the postmaster and its children with SIGKILL, as a crash of the machine would,
// and returns when they have ended. It is for tests of faults. The server stays owned, and
// Restart starts it again.
func (s *Server) Kill() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.owned {
		return errNotOwned
	}
	return s.proc.kill()
}

// Restart starts PostgreSQL again after Stop or Kill, with the same DSN. It is for tests of
// faults. It fails if PostgreSQL runs, or if another process has taken over the cluster
// since Stop.
func (s *Server) Restart(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.owned {
		return errNotOwned
	}
	if s.proc.alive() {
		return fmt.Errorf("restart PostgreSQL: it runs already, as process %d", s.proc.pid)
	}
	if s.lock == nil {
		lock, err := tryLock(filepath.Join(s.opts.DataDir, "lock"))
		if err != nil {
			return fmt.Errorf("restart PostgreSQL: %w", err)
		}
		s.lock = lock
	}
	if err := s.run(ctx); err != nil {
		s.unlock()
		return fmt.Errorf("restart PostgreSQL: %w", err)
	}
	return nil
}

// Discard removes a data folder with its cluster. It ends a postmaster whose owner has died.
// It fails if a live process owns the folder. It is for cleaning up after test processes
// that died.
func Discard(dataDir string) error {
	dir, err := filepath.EvalSymlinks(dataDir)
	if err != nil {
		return fmt.Errorf("discard %s: %w", dataDir, err)
	}
	lock, err := tryLock(filepath.Join(dir, "lock"))
	if err != nil {
		return fmt.Errorf("discard %s: %w", dataDir, err)
	}
	defer unlock(lock)
	p, err := locate(dir)
	if err != nil {
		return fmt.Errorf("discard %s: %w", dataDir, err)
	}
	if pm, ok := livePostmaster(p.cluster); ok {
		if err := adopted(pm.pid, p.cluster).quit(); err != nil {
			return fmt.Errorf("discard %s: %w", dataDir, err)
		}
	}
	p.removeSockets()
	if p.home != dir {
		if err := os.RemoveAll(p.home); err != nil {
			return fmt.Errorf("discard %s: %w", dataDir, err)
		}
	}
	return os.RemoveAll(dir)
}
