package session

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/netip"
	"time"

	"github.com/eventhook/eventhook"
)

// Config configures Sessions.
type Config struct {
	Kind    Kind
	Cookies Cookie
	Store   Store
	Jar     Jar
	// Client returns the client address of a request, by which unknown tokens and codes, and starts of
	// sessions, are limited. nil: no limits.
	Client func(*http.Request) netip.Addr
	// Actor returns the address and the ids of a request for the audit log. nil: they are unknown.
	Actor func(*http.Request) eventhook.Actor
	Now   func() time.Time // nil: time.Now
}

// Sessions starts, reads and ends the sessions of one kind. It is safe for concurrent use.
type Sessions struct {
	Config
	origin   *http.CrossOriginProtection
	limits   *limiter
	watchers watchers
}

// New returns the Sessions of a configuration.
func New(c Config) *Sessions {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Actor == nil {
		c.Actor = func(*http.Request) eventhook.Actor { return eventhook.Actor{} }
	}
	return &Sessions{Config: c, origin: http.NewCrossOriginProtection(), limits: newLimiter(c.Client, c.Now)}
}

// errNone is the same for a missing, an unknown and an expired token.
var errNone = &eventhook.Error{Kind: eventhook.KindUnauthorized, Message: "You are not signed in, or the session has ended."}

// errLink is the same for an unknown, a used and an expired code.
var errLink = &eventhook.Error{Kind: eventhook.KindNotFound, Message: "The link is not valid: it was used already, or it has expired."}

// Start signs a browser in: it stores the session and sets the cookie. It sets ID, Kind, CreatedAt and
// LastSeenAt, and, if it is zero, ExpiresAt to MaxAge from now. It ends the session that the
// request had before. The error is KindRateLimited if too many sessions were started from the client
// address.
func (s *Sessions) Start(ctx context.Context, w http.ResponseWriter, r *http.Request, n Session) (Session, error) {
	if err := s.limits.start(r); err != nil {
		return n, err
	}
	if err := s.deleteOf(ctx, r); err != nil {
		return n, err
	}
	now := s.Now()
	n.ID, n.Kind, n.CreatedAt, n.LastSeenAt = eventhook.NewID[Session](now), s.Kind, now, now
	if n.ExpiresAt.IsZero() {
		n.ExpiresAt = now.Add(MaxAge)
	}
	token := newToken()
	hash := hashOf(token)
	if err := s.Store.CreateWebSession(ctx, hash[:], n, s.Actor(r)); err != nil {
		return n, err
	}
	s.setToken(w, r, token, n.ExpiresAt.Sub(now))
	return n, nil
}

// Read returns the session of a request of a person and its token. The error is KindUnauthorized if
// the request has no valid session, and KindRateLimited if in addition the client address has sent
// too many tokens that are not valid.
func (s *Sessions) Read(r *http.Request) (n Session, token string, err error) {
	n, token, err = s.Peek(r)
	if now := s.Now(); err == nil && now.Sub(n.LastSeenAt) >= touchInterval {
		n.LastSeenAt = now
		hash := hashOf(token)
		err = s.Store.TouchWebSession(r.Context(), hash[:], now)
	}
	return n, token, err
}

// Peek is Read for a request that a page sends by itself, which does not extend the session.
func (s *Sessions) Peek(r *http.Request) (n Session, token string, err error) {
	token = s.Jar.Get(r, s.Cookies.Name)
	if !isToken(token) {
		return Session{}, "", errNone
	}
	hash := hashOf(token)
	err = s.limits.findToken(r, hash, func(ctx context.Context) (err error) {
		n, err = s.find(ctx, hash)
		return err
	})
	if err != nil {
		return Session{}, "", err
	}
	return n, token, nil
}

// find returns the valid session with the hash of a token, or errNone.
func (s *Sessions) find(ctx context.Context, hash tokenHash) (Session, error) {
	n, err := s.Store.WebSession(ctx, hash[:])
	if eventhook.KindOf(err) == eventhook.KindNotFound || err == nil && (n.Kind != s.Kind || !n.IsValid(s.Now())) {
		return Session{}, errNone
	}
	return n, err
}

// End signs a browser out: it deletes the session of the request and the cookie.
func (s *Sessions) End(ctx context.Context, w http.ResponseWriter, r *http.Request) error {
	s.setToken(w, r, "", 0)
	return s.deleteOf(ctx, r)
}

// Refuse records in the audit log that a known person or key was refused. The session has the Name of
// the person, or the KeyHash.
func (s *Sessions) Refuse(r *http.Request, n Session) error {
	n.Kind = s.Kind
	return s.Store.RecordRefusal(context.WithoutCancel(r.Context()), n, s.Actor(r))
}

// deleteOf deletes the session whose token a request has, if any.
func (s *Sessions) deleteOf(ctx context.Context, r *http.Request) error {
	token := s.Jar.Get(r, s.Cookies.Name)
	if !isToken(token) {
		return nil
	}
	hash := hashOf(token)
	err := s.Store.DeleteWebSession(ctx, hash[:], s.Actor(r))
	if err == nil {
		s.watchers.end(hash)
	}
	return err
}

// NewLink stores a link to a session and returns its code. The code can be redeemed once within
// ttl. A session of the portal without ExpiresAt ends when its link does.
func (s *Sessions) NewLink(ctx context.Context, n Session, ttl time.Duration) (code string, err error) {
	end := s.Now().Add(ttl)
	n.Kind = s.Kind
	if n.Kind == Portal && n.ExpiresAt.IsZero() {
		n.ExpiresAt = end
	}
	code = newToken()
	hash := hashOf(code)
	return code, s.Store.CreateWebLink(ctx, hash[:], n, end)
}

// Redeem returns the session of a link, for Start. Concurrent callers with the same code get
// it once. The error is KindNotFound for a code that is unknown, was redeemed or has expired, and
// KindRateLimited if in addition the client address has sent too many such codes.
func (s *Sessions) Redeem(r *http.Request, code string) (n Session, err error) {
	if !isToken(code) {
		return Session{}, errLink
	}
	hash := hashOf(code)
	err = s.limits.find(r, func(ctx context.Context) (err error) {
		n, err = s.Store.TakeWebLink(ctx, hash[:], s.Kind, s.Now())
		if eventhook.KindOf(err) == eventhook.KindNotFound {
			return errLink
		}
		return err
	})
	return n, err
}

const tokenBytes = 32

// newToken returns a random token with 256 bits of entropy.
func newToken() string {
	raw := make([]byte, tokenBytes)
	_, _ = rand.Read(raw) // never fails, see crypto/rand
	return base64.RawURLEncoding.EncodeToString(raw)
}

// isToken reports whether a text has the form of the tokens that newToken returns.
func isToken(text string) bool {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	return err == nil && len(raw) == tokenBytes
}

func hashOf(token string) tokenHash { return sha256.Sum256([]byte(token)) }
