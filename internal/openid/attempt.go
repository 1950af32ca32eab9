package openid

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/eventhook/eventhook/internal/session"
)

const (
	stateCookie = "eventhook_openid"
	cookiePath  = "/console/openid"
	// signInTime is how long a person may take at the provider.
	signInTime = 10 * time.Minute
)

// attempt is a sign-in that has begun. The browser keeps it in a cookie, which is signed, so that only
// the gateway begins sign-ins; the provider returns State.
type attempt struct {
	State, Nonce, Verifier, Next string
	ExpiresAt                    time.Time
}

// keep stores an attempt in the browser.
func (p *Provider) keep(w http.ResponseWriter, r *http.Request, a attempt) {
	raw, _ := json.Marshal(a) // cannot fail
	encoded := base64.RawURLEncoding
	p.Jar.Set(w, r, stateCookieWith(encoded.EncodeToString(raw)+"."+encoded.EncodeToString(p.sign(raw))))
}

// forget deletes the attempt from the browser.
func (p *Provider) forget(w http.ResponseWriter, r *http.Request) {
	p.Jar.Set(w, r, stateCookieWith(""))
}

// stateCookieWith returns the cookie with an attempt. The provider's redirect comes from another site,
// which SameSite=Strict would not allow.
func stateCookieWith(value string) session.Cookie {
	return session.Cookie{Name: stateCookie, Value: value, Path: cookiePath, MaxAge: int(signInTime.Seconds()), SameSite: http.SameSiteLaxMode}
}

// attemptOf returns the attempt of a request.
func (p *Provider) attemptOf(r *http.Request) (a attempt, err error) {
	first, second, _ := strings.Cut(p.Jar.Get(r, stateCookie), ".")
	raw, err := base64.RawURLEncoding.DecodeString(first)
	signature, signatureErr := base64.RawURLEncoding.DecodeString(second)
	if err != nil || signatureErr != nil || !hmac.Equal(signature, p.sign(raw)) || json.Unmarshal(raw, &a) != nil || !p.Now().Before(a.ExpiresAt) {
		return attempt{}, &Error{"This sign-in has expired, or the browser keeps no cookies. Sign in again."}
	}
	return a, nil
}

func (p *Provider) sign(raw []byte) []byte {
	mac := hmac.New(sha256.New, p.Key)
	_, _ = mac.Write(raw) // never fails
	return mac.Sum(nil)
}
