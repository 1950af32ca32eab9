package console

import (
	"context"
	"crypto/sha256"
	"net/http"
	"net/url"
	"strings"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/session"
)

// OpenID signs people in with OpenID Connect.
type OpenID interface {
	// Name is shown on the button, for example Acme SSO.
	Name() string
	// Begin redirects the browser to the provider. next is the page to show afterwards. The error's
	// text is shown to the person.
	Begin(w http.ResponseWriter, r *http.Request, next string) error
	// Finish handles the provider's redirect and returns the session and the page to show. The
	// error's text is shown to the person.
	Finish(w http.ResponseWriter, r *http.Request) (s session.Session, next string, err error)
}

// signInPage is the data of the page on which a person signs in.
type signInPage struct {
	Root, Theme, Next, Fault string
	OpenID                   string // name of the provider; "" without one
	Title, Version           string
}

func (c *Console) registerSignIn() {
	var crossOrigin http.CrossOriginProtection
	c.mux.HandleFunc("GET "+Root+"/sign-in", c.serveSignIn)
	c.mux.Handle("POST "+Root+"/sign-in", crossOrigin.Handler(http.HandlerFunc(c.signIn)))
	c.mux.HandleFunc("GET "+Root+"/link", c.redeemLink)
	c.mux.HandleFunc("POST "+Root+"/sign-out", c.signOut)
	if c.OpenID != nil {
		c.mux.HandleFunc("GET "+Root+"/openid", c.beginOpenID)
		c.mux.HandleFunc("GET "+Root+"/openid/callback", c.finishOpenID)
	}
}

// serveSignIn shows the form, or the next page to a person who is signed in. A link on another site
// brings no session, see renderContinue: the page opens itself once more.
func (c *Console) serveSignIn(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Sec-Fetch-Site") == "cross-site" {
		c.renderContinue(w, r, Root+"/sign-in?next="+url.QueryEscape(nextOf(r.URL.Query().Get("next"))))
		return
	}
	if _, _, err := c.Sessions.Read(r); err == nil {
		http.Redirect(w, r, nextOf(r.URL.Query().Get("next")), http.StatusSeeOther) //nolint:gosec // nextOf allows paths of the console only
		return
	}
	c.renderSignIn(w, r, http.StatusOK, "")
}

func (c *Console) renderSignIn(w http.ResponseWriter, r *http.Request, status int, fault string) {
	data := signInPage{Root: Root, Theme: themeOf(r), Next: nextOf(r.FormValue("next")), Fault: fault, Title: "Sign in", Version: c.Version}
	if c.OpenID != nil {
		data.OpenID = c.OpenID.Name()
	}
	c.render(w, r, "sign_in", status, data)
}

// signIn starts a session with the permissions of a key. The API checks the key, with the limit of
// wrong keys per client address.
func (c *Console) signIn(w http.ResponseWriter, r *http.Request) {
	const maxSignIn = 16 << 10
	r.Body = http.MaxBytesReader(w, r.Body, maxSignIn)
	key := strings.TrimSpace(r.PostFormValue("key"))
	if key == "" {
		c.renderSignIn(w, r, http.StatusUnprocessableEntity, "Enter a key. It begins with ehk_, unless it is an admin key.")
		return
	}
	identity, err := c.identify(r, key)
	if err != nil {
		status, fault := c.signInFault(r, err)
		c.renderSignIn(w, r, status, fault)
		return
	}
	hash := sha256.Sum256([]byte(key))
	c.start(w, r, session.Session{Kind: session.Console, KeyHash: hash[:], Name: identity.Name}, r.PostFormValue("next"))
}

func (c *Console) identify(r *http.Request, key string) (client.Identity, error) {
	gateway, err := inProcess(c.API, r, key)
	if err != nil {
		return client.Identity{}, &client.Problem{Status: http.StatusUnauthorized}
	}
	return gateway.GetIdentity(context.WithoutCancel(r.Context()))
}

func (c *Console) signInFault(r *http.Request, err error) (status int, fault string) {
	switch status := client.StatusOf(err); status {
	case http.StatusUnauthorized:
		return status, "This key is not valid. Check that you copied all of it, and that it was not deleted."
	case http.StatusTooManyRequests:
		return status, "Too many wrong keys came from your address. Wait a minute and try again."
	case http.StatusServiceUnavailable:
		return status, "The gateway cannot check the key now. Try again in a few seconds."
	default:
		c.Log.Error("a sign-in failed", "path", r.URL.Path, "error", err)
		return http.StatusInternalServerError, "The gateway could not check the key. Its log has the cause."
	}
}

func (c *Console) start(w http.ResponseWriter, r *http.Request, s session.Session, next string) {
	if c.store(w, r, s) {
		http.Redirect(w, r, nextOf(next), http.StatusSeeOther) //nolint:gosec // nextOf allows paths of the console only
	}
}

// store stores a session and sets its cookie. It reports false after it has shown an error.
func (c *Console) store(w http.ResponseWriter, r *http.Request, s session.Session) bool {
	if _, err := c.Sessions.Start(context.WithoutCancel(r.Context()), w, r, s); err != nil {
		c.Log.Error("a session cannot be stored", "error", err)
		c.renderSignIn(w, r, http.StatusServiceUnavailable, "The gateway could not store the session. Try again in a few seconds.")
		return false
	}
	return true
}

// redeemLink signs in with the one-time link that the gateway prints at its start.
func (c *Console) redeemLink(w http.ResponseWriter, r *http.Request) {
	s, err := c.Sessions.Redeem(r, r.URL.Query().Get("code"))
	switch {
	case eventhook.KindOf(err) == eventhook.KindNotFound:
		if _, _, err := c.Sessions.Read(r); err == nil { // the link was opened twice in one browser
			http.Redirect(w, r, Root, http.StatusSeeOther)
			return
		}
		c.renderSignIn(w, r, http.StatusGone, "This link was used already, or has expired. Sign in with a key.")
	case err != nil:
		c.Log.Error("a sign-in link cannot be read", "error", err)
		c.renderSignIn(w, r, http.StatusServiceUnavailable, "The gateway could not check the link. Try again in a few seconds.")
	default:
		c.start(w, r, s, Root)
	}
}

func (c *Console) beginOpenID(w http.ResponseWriter, r *http.Request) {
	if err := c.OpenID.Begin(w, r, nextOf(r.URL.Query().Get("next"))); err != nil {
		c.renderSignIn(w, r, http.StatusBadGateway, err.Error())
	}
}

// finishOpenID starts the session of a person who comes back from the provider.
func (c *Console) finishOpenID(w http.ResponseWriter, r *http.Request) {
	s, next, err := c.OpenID.Finish(w, r)
	if err != nil {
		c.renderSignIn(w, r, http.StatusForbidden, err.Error())
		return
	}
	if c.store(w, r, s) {
		c.renderContinue(w, r, nextOf(next))
	}
}

// renderContinue shows a page that opens another page of the console at once. A browser sends a
// cookie with SameSite=Strict only with requests that begin at a page of the console, so a redirect
// of a request that began on another site would arrive without the session.
func (c *Console) renderContinue(w http.ResponseWriter, r *http.Request, to string) {
	c.render(w, r, "continue", http.StatusOK, signInPage{Root: Root, Theme: themeOf(r), Next: to, Version: c.Version})
}

func (c *Console) signOut(w http.ResponseWriter, r *http.Request) {
	_, token, err := c.Sessions.Read(r)
	if err == nil {
		if err := c.Sessions.CheckCSRF(r, token); err != nil {
			http.Redirect(w, r, Root, http.StatusSeeOther)
			return
		}
		if err := c.Sessions.End(context.WithoutCancel(r.Context()), w, r); err != nil {
			c.Log.Error("a session cannot be deleted", "error", err)
			http.Error(w, "The gateway could not end the session. Go back and try again.", http.StatusServiceUnavailable)
			return
		}
	}
	http.Redirect(w, r, Root+"/sign-in", http.StatusSeeOther)
}

// nextOf returns the page to show after the sign-in: a path of the console, so that no link to the
// sign-in can lead elsewhere.
func nextOf(next string) string {
	u, err := url.Parse(next)
	isOwn := err == nil && u.Scheme == "" && u.Host == "" && (u.Path == Root || strings.HasPrefix(u.Path, Root+"/")) && !strings.Contains(next, `\`)
	if !isOwn || strings.HasPrefix(u.Path, Root+"/sign-") {
		return Root
	}
	return next
}
