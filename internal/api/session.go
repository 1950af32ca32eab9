package api

import (
	"context"
	"crypto/sha256"
	"encoding/json"

	"github.com/eventhook/eventhook"
)

// Session authorizes a request in place of an Authorization header. It has either a KeyHash
// or a Grant. A Session with neither or with both, or with a KeyHash of another length than
// SHA-256, authorizes nothing.
type Session struct {
	// KeyHash is the SHA-256 of the API key with which the person signed in. Every request is
	// authenticated with it, so the session has the current permissions of the key, and none
	// within a second after the key was deleted or has expired.
	KeyHash []byte
	// Grant has the permissions of a person without a key. Nothing but the caller ends them: a
	// caller must end the requests of a session that has ended, such as streams.
	Grant *eventhook.Grant
	// Via is the program that sends the request: eventhook.ViaConsole or eventhook.ViaPortal.
	// The audit log has it.
	Via string
	// Memory keeps the memory of the session's requests reserved after they are answered; nil
	// releases it at once.
	Memory *HeldMemory `json:"-"`
}

type sessionKey struct{}

// WithSession returns a context for requests to the handlers of the API in this process. The
// session authorizes them, and their Authorization header is ignored. The context of a
// request that arrives from the network never has a session.
func WithSession(ctx context.Context, s Session) context.Context {
	return context.WithValue(ctx, sessionKey{}, s)
}

// SessionOf returns the session that WithSession added to ctx.
func SessionOf(ctx context.Context) (s Session, ok bool) {
	s, ok = ctx.Value(sessionKey{}).(Session)
	return s, ok
}

// credential returns what authenticates the requests of the session; ok is false for a session
// that authorizes nothing.
func (s Session) credential() (c credential, ok bool) {
	switch {
	case s.Grant != nil && s.KeyHash == nil:
		raw, err := json.Marshal(s)
		return credential{hash: sha256.Sum256(raw), grant: s.Grant}, err == nil
	case s.Grant == nil && len(s.KeyHash) == sha256.Size:
		return credential{hash: keyHash(s.KeyHash), hasKeyForm: true}, true
	}
	return credential{}, false
}
