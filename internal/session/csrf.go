package session

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"net/http"

	"github.com/eventhook/eventhook"
)

// CSRFHeader and CSRFField are where CheckCSRF finds the token of a request.
const (
	CSRFHeader = "X-CSRF-Token"
	CSRFField  = "csrf"
)

var errForged = &eventhook.Error{Kind: eventhook.KindForbidden,
	Message: "The request was not sent from a page of this session. Reload the page and try again."}

// CSRFToken returns a token that forms and scripts of a session send back. It is valid as long as the
// session lasts, and does not reveal the token of the session. Each call returns another text: a
// secret that is the same in many compressed responses, beside text that a stranger chooses, can be
// guessed from their sizes (BREACH).
func (*Sessions) CSRFToken(token string) string {
	masked := make([]byte, 2*sha256.Size) // a random pad, and the secret xor the pad
	pad := masked[:sha256.Size]
	_, _ = rand.Read(pad) // never fails, see crypto/rand
	subtle.XORBytes(masked[sha256.Size:], csrfSecret(token), pad)
	return base64.RawURLEncoding.EncodeToString(masked)
}

// isCSRFToken reports whether CSRFToken returned a text for the token of a session.
func isCSRFToken(text, token string) bool {
	masked, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(masked) != 2*sha256.Size || token == "" {
		return false
	}
	secret := masked[sha256.Size:]
	subtle.XORBytes(secret, secret, masked[:sha256.Size])
	return hmac.Equal(secret, csrfSecret(token))
}

func csrfSecret(token string) []byte {
	mac := hmac.New(sha256.New, []byte(token))
	_, _ = mac.Write([]byte("csrf")) // never fails
	return mac.Sum(nil)
}

// CheckOrigin returns an error of KindForbidden if another site sent the request, unless its
// method is GET, HEAD or OPTIONS. It is enough for the form with which a browser signs in.
func (s *Sessions) CheckOrigin(r *http.Request) error {
	if s.origin.Check(r) != nil {
		return errForged
	}
	return nil
}

// CheckCSRF returns an error of KindForbidden unless the request was sent by a page of the
// session with a token. Such a request passes CheckOrigin and has a CSRFToken: in the header
// CSRFHeader, or in the field CSRFField of an urlencoded form. GET and HEAD are always
// permitted. If the header is missing, CheckCSRF parses the form; the caller limits the body.
func (s *Sessions) CheckCSRF(r *http.Request, token string) error {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return nil
	}
	if err := s.CheckOrigin(r); err != nil {
		return err
	}
	sent := r.Header.Get(CSRFHeader)
	if sent == "" && r.ParseForm() == nil {
		sent = r.PostForm.Get(CSRFField)
	}
	if !isCSRFToken(sent, token) {
		return errForged
	}
	return nil
}
