// Package portallink makes and checks the tokens of links to the customer portal.
//
// A token names a tenant, a scope, limits and an expiry time, and ends with an HMAC-SHA256 over these. It
// is not stored, can be used several times until it expires, and is not encrypted: its holder
// can read it. A token is valid only together with its tenant: the caller of Open must refuse
// the token if the tenant is closed.
package portallink

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"time"

	"github.com/eventhook/eventhook"
)

// Link describes a link to the portal.
type Link struct {
	ID         ID
	TenantID   eventhook.TenantID
	Scope      string
	ExpiresAt  time.Time // whole seconds
	IsReadOnly bool
	// MaxEndpoints is that of the customer: 1 to eventhook.MaxEndpointsLimit.
	MaxEndpoints int
}

// ID is the id of a link. The audit log has it.
type ID = eventhook.PortalLinkID

// ErrInvalid means that a token was not signed with the key, or was changed.
var ErrInvalid = errors.New("the link is not valid")

// ErrExpired means that a token was valid and has expired.
var ErrExpired = errors.New("the link has expired")

// A token is base64url of: version, flags, id, tenant, expiry in seconds since 1970, maximum of
// endpoints, scope, MAC.
const (
	version      = 2
	flagReadOnly = 1

	flagsAt     = 1
	idAt        = 2
	tenantAt    = idAt + 16
	expiryAt    = tenantAt + 16
	endpointsAt = expiryAt + 8
	scopeAt     = endpointsAt + 2

	// MaxToken is the maximum length of a token in bytes.
	MaxToken = (scopeAt + eventhook.MaxScopePattern + sha256.Size + 2) / 3 * 4
)

// New returns a link with a new id and the default limits that expires after lifetime, rounded up to a
// second.
func New(tenant eventhook.TenantID, scope string, now time.Time, lifetime time.Duration) Link {
	return Link{ID: eventhook.NewID[eventhook.PortalLink](now), TenantID: tenant, Scope: scope,
		ExpiresAt: now.Add(lifetime + time.Second - time.Nanosecond).Truncate(time.Second).UTC(), MaxEndpoints: eventhook.DefaultMaxEndpoints}
}

// Sign returns the token of the link.
func (l Link) Sign(key []byte) string {
	var flags byte
	if l.IsReadOnly {
		flags = flagReadOnly
	}
	b := append([]byte{version, flags}, l.ID[:]...)
	b = append(b, l.TenantID[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(l.ExpiresAt.Unix()))
	b = binary.BigEndian.AppendUint16(b, uint16(l.MaxEndpoints))
	b = append(b, l.Scope...)
	return base64.RawURLEncoding.EncodeToString(append(b, mac(key, b)...))
}

// Open returns the link of a token. The error is ErrInvalid or ErrExpired.
func Open(key []byte, token string, now time.Time) (Link, error) {
	if len(key) == 0 || len(token) > MaxToken {
		return Link{}, ErrInvalid
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(raw) < scopeAt+sha256.Size {
		return Link{}, ErrInvalid
	}
	signed, sum := raw[:len(raw)-sha256.Size], raw[len(raw)-sha256.Size:]
	if !hmac.Equal(sum, mac(key, signed)) || signed[0] != version || signed[flagsAt] > flagReadOnly {
		return Link{}, ErrInvalid
	}
	l := Link{ID: ID(signed[idAt:tenantAt]), TenantID: eventhook.TenantID(signed[tenantAt:expiryAt]), Scope: string(signed[scopeAt:]),
		ExpiresAt:  time.Unix(int64(binary.BigEndian.Uint64(signed[expiryAt:endpointsAt])), 0).UTC(),
		IsReadOnly: signed[flagsAt] == flagReadOnly, MaxEndpoints: int(binary.BigEndian.Uint16(signed[endpointsAt:scopeAt]))}
	if eventhook.CheckScope(l.Scope) != "" || l.MaxEndpoints < 1 || l.MaxEndpoints > eventhook.MaxEndpointsLimit {
		return Link{}, ErrInvalid
	}
	if !now.Before(l.ExpiresAt) {
		return Link{}, ErrExpired
	}
	return l, nil
}

func mac(key, signed []byte) []byte {
	h := hmac.New(sha256.New, key)
	_, _ = h.Write([]byte("portal-link\x00")) // never fails
	_, _ = h.Write(signed)
	return h.Sum(nil)
}
