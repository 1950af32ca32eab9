// Package sessiontest has a session.Store in memory for tests, and the conformance suite of
// session.Store that this store and PostgreSQL pass.
package sessiontest

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/session"
)

// Store is a session.Store in memory. It is safe for concurrent use.
type Store struct {
	mu       sync.Mutex
	now      func() time.Time
	sessions map[string]session.Session
	links    map[string]link
	touches  int
	audit    []string
}

type link struct {
	session   session.Session
	expiresAt time.Time
}

var _ session.Store = (*Store)(nil)

// NewStore returns an empty Store with a clock.
func NewStore(now func() time.Time) *Store {
	return &Store{now: now, sessions: map[string]session.Session{}, links: map[string]link{}}
}

// CreateWebSession implements session.Store.
func (s *Store) CreateWebSession(_ context.Context, tokenHash []byte, n session.Session, by eventhook.Actor) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deleteFormer(n.LinkID())
	s.record(session.ActionStarted, n, by)
	s.sessions[string(tokenHash)] = n
	return nil
}

// deleteFormer deletes the oldest sessions of a link so that one can be added.
func (s *Store) deleteFormer(link eventhook.PortalLinkID) {
	var of []string // tokens, the newest first
	for token, n := range s.sessions {
		if !link.IsZero() && n.LinkID() == link {
			of = append(of, token)
		}
	}
	slices.SortFunc(of, func(a, b string) int { return s.sessions[b].CreatedAt.Compare(s.sessions[a].CreatedAt) })
	for _, token := range of[min(len(of), session.MaxOfLink-1):] {
		delete(s.sessions, token)
	}
}

// WebSession implements session.Store.
func (s *Store) WebSession(_ context.Context, tokenHash []byte) (session.Session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, ok := s.sessions[string(tokenHash)]
	if !ok {
		return n, eventhook.NotFound("session")
	}
	return n, nil
}

// TouchWebSession implements session.Store.
func (s *Store) TouchWebSession(_ context.Context, tokenHash []byte, at time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.touches++
	if n, ok := s.sessions[string(tokenHash)]; ok && at.After(n.LastSeenAt) {
		n.LastSeenAt = at
		s.sessions[string(tokenHash)] = n
	}
	return nil
}

// Touches returns the number of calls of TouchWebSession.
func (s *Store) Touches() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.touches
}

// DeleteWebSession implements session.Store.
func (s *Store) DeleteWebSession(_ context.Context, tokenHash []byte, by eventhook.Actor) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n, ok := s.sessions[string(tokenHash)]; ok {
		s.record(session.ActionEnded, n, by)
	}
	delete(s.sessions, string(tokenHash))
	return nil
}

// RecordRefusal implements session.Store. The store knows no keys.
func (s *Store) RecordRefusal(_ context.Context, n session.Session, by eventhook.Actor) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n.KeyHash == nil {
		s.record(session.ActionRefused, n, by)
	}
	return nil
}

// record adds an entry. The caller holds the lock.
func (s *Store) record(action string, n session.Session, by eventhook.Actor) {
	if n.Kind == session.Console {
		s.audit = append(s.audit, strings.TrimSpace(action+" "+n.Name+" "+by.SourceIP))
	}
}

// Audit returns the audit entries as action, name and address.
func (s *Store) Audit() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.audit)
}

// CreateWebLink implements session.Store.
func (s *Store) CreateWebLink(_ context.Context, codeHash []byte, n session.Session, expiresAt time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.links[string(codeHash)] = link{n, expiresAt}
	return nil
}

// TakeWebLink implements session.Store.
func (s *Store) TakeWebLink(_ context.Context, codeHash []byte, kind session.Kind, now time.Time) (session.Session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, ok := s.links[string(codeHash)]
	if !ok || l.session.Kind != kind || !now.Before(l.expiresAt) {
		return session.Session{}, eventhook.NotFound("link")
	}
	delete(s.links, string(codeHash))
	return l.session, nil
}

// SweepWebSessions deletes sessions and links that are no longer valid, and returns their number.
func (s *Store) SweepWebSessions(context.Context) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, before := s.now(), len(s.sessions)+len(s.links)
	maps.DeleteFunc(s.sessions, func(_ string, n session.Session) bool { return !n.IsValid(now) })
	maps.DeleteFunc(s.links, func(_ string, l link) bool { return !now.Before(l.expiresAt) })
	return before - len(s.sessions) - len(s.links), nil
}
