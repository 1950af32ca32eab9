// Package session keeps people signed in to the console and the portal. It issues random
// tokens for browsers, checks them, and redeems one-time sign-in links. It has the cookies and
// the protection against forged requests from other sites, and no pages.
//
// A Store has only the SHA-256 of a token or a code, which has 256 random bits. So the store's
// content does not let a reader sign in. A session is valid until it expires, is idle for too
// long, or ends; see Session. It has the hash of an API key, or a Grant. The package does not
// check the key: the API does so for each request (api.Session), so a deleted key ends the rights
// of its sessions at once.
package session

import (
	"context"
	"time"

	"github.com/eventhook/eventhook"
)

// Kind is the program that a session is for. A session of one kind is not valid for the other.
type Kind string

// The kinds of sessions.
const (
	Console Kind = eventhook.ViaConsole
	Portal  Kind = eventhook.ViaPortal
)

const (
	// IdleTimeout ends a session of the console after its last request.
	IdleTimeout = 12 * time.Hour
	// MaxAge ends a session of the console after its start. A session of the portal ends at its
	// ExpiresAt, which is that of its link, and has no idle timeout.
	MaxAge = 7 * 24 * time.Hour
	// touchInterval is the shortest time between two writes of LastSeenAt.
	touchInterval = time.Minute
)

// Session is one browser that is signed in. It has either a KeyHash or a Grant.
type Session struct {
	ID   eventhook.ID[Session]
	Kind Kind
	Name string // of the key or the person, for display
	// KeyHash is the SHA-256 of the API key with which the person signed in.
	KeyHash []byte
	Grant   *eventhook.Grant

	// TenantSlug, Scope and ReadOnly are those of the link of a session of the portal.
	TenantSlug string
	Scope      string
	ReadOnly   bool

	CreatedAt  time.Time
	LastSeenAt time.Time // up to touchInterval behind
	ExpiresAt  time.Time
}

// IsValid reports whether the session has neither expired nor been idle for too long.
func (s Session) IsValid(now time.Time) bool {
	return now.Before(s.ExpiresAt) && (s.Kind != Console || now.Before(s.LastSeenAt.Add(IdleTimeout)))
}

// Store stores sessions and links by the SHA-256 of their token or code. It must not return a
// link twice, even to concurrent callers.
type Store interface {
	CreateWebSession(ctx context.Context, tokenHash []byte, s Session) error
	// WebSession returns a session, which may have expired. The error is KindNotFound if there is none.
	WebSession(ctx context.Context, tokenHash []byte) (Session, error)
	// TouchWebSession sets LastSeenAt, unless it is later already. It ignores a session that does not exist.
	TouchWebSession(ctx context.Context, tokenHash []byte, at time.Time) error
	// DeleteWebSession deletes a session. It ignores a session that does not exist.
	DeleteWebSession(ctx context.Context, tokenHash []byte) error
	LinkStore
}

// LinkStore stores one-time links.
type LinkStore interface {
	CreateWebLink(ctx context.Context, codeHash []byte, s Session, expiresAt time.Time) error
	// TakeWebLink deletes a link of a kind that has not expired at now, and returns its session.
	// The error is KindNotFound if there is no such link.
	TakeWebLink(ctx context.Context, codeHash []byte, kind Kind, now time.Time) (Session, error)
}
