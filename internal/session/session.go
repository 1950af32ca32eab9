// Package session keeps people signed in to the console and the portal. It issues random
// tokens for browsers, checks them, and redeems one-time sign-in links. It has the cookies and
// the protection against forged requests from other sites, and no pages.
//
// A Store has only the SHA-256 of a token or a code, which has 256 random bits. So the store's
// content does not let a reader sign in. A session is valid until it expires, is idle for too
// long, or ends; see Session. It has the hash of an API key, a Person, or a Grant. The package does not
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
	// MaxOfLink is how many sessions of a link to the portal are valid: the newest ones.
	MaxOfLink = 20
	// touchInterval is the shortest time between two writes of LastSeenAt.
	touchInterval = time.Minute
)

// Person is a person who signed in with OpenID Connect. The session has the values of the claim and no
// permissions: the console maps the values for each request, so a changed configuration counts at once.
type Person struct {
	Issuer string   `json:"issuer"`
	Claim  string   `json:"claim"`
	Values []string `json:"values"` // which had permissions at the sign-in
}

// Session is one browser that is signed in. It has a KeyHash, a Person or a Grant.
type Session struct {
	ID   eventhook.ID[Session]
	Kind Kind
	Name string // of the key or the person, for display
	// KeyHash is the SHA-256 of the API key with which the person signed in.
	KeyHash []byte
	Person  *Person
	Grant   *eventhook.Grant // of a session of the portal

	// TenantSlug is the tenant of the key or of the link to the portal; "" for admin keys and persons.
	TenantSlug string
	// Scope and ReadOnly are those of the link of a session of the portal.
	Scope    string
	ReadOnly bool

	CreatedAt  time.Time
	LastSeenAt time.Time // up to touchInterval behind
	ExpiresAt  time.Time
}

// IsValid reports whether the session has neither expired nor been idle for too long.
func (s Session) IsValid(now time.Time) bool {
	return now.Before(s.ExpiresAt) && (s.Kind != Console || now.Before(s.LastSeenAt.Add(IdleTimeout)))
}

// LinkID returns the id of the link of a session of the portal; zero for other sessions.
func (s Session) LinkID() (id eventhook.PortalLinkID) {
	if s.Grant != nil && s.Grant.Customer != nil {
		id = s.Grant.Customer.LinkID
	}
	return id
}

// Store stores sessions and links by the SHA-256 of their token or code. It must not return a
// link twice, even to concurrent callers.
//
// The start, the end and the refusal of a session of the console each have an entry in the audit log:
// that of the tenant of its key, or the operator's for admin keys and persons. The store determines the
// actor from the session; from by come the address and the ids of the request. Sessions of the portal
// have no entries, because the holder of a link could fill the log.
type Store interface {
	// CreateWebSession stores a session. Of the sessions with one LinkID, it deletes all but the
	// newest MaxOfLink; concurrent calls may leave more.
	CreateWebSession(ctx context.Context, tokenHash []byte, s Session, by eventhook.Actor) error
	// WebSession returns a session, which may have expired. The error is KindNotFound if there is none.
	WebSession(ctx context.Context, tokenHash []byte) (Session, error)
	// TouchWebSession sets LastSeenAt, unless it is later already. It ignores a session that does not exist.
	TouchWebSession(ctx context.Context, tokenHash []byte, at time.Time) error
	// DeleteWebSession deletes a session. It ignores a session that does not exist.
	DeleteWebSession(ctx context.Context, tokenHash []byte, by eventhook.Actor) error
	// RecordRefusal records that a session was not started. It ignores a KeyHash of which it knows no key.
	RecordRefusal(ctx context.Context, s Session, by eventhook.Actor) error
	LinkStore
}

// Actions in the audit log.
const (
	ActionStarted = "session.started"
	ActionEnded   = "session.ended"
	ActionRefused = "session.refused"
)

// LinkStore stores one-time links.
type LinkStore interface {
	CreateWebLink(ctx context.Context, codeHash []byte, s Session, expiresAt time.Time) error
	// TakeWebLink deletes a link of a kind that has not expired at now, and returns its session.
	// The error is KindNotFound if there is no such link.
	TakeWebLink(ctx context.Context, codeHash []byte, kind Kind, now time.Time) (Session, error)
}
