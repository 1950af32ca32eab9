package console

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/session"
	"github.com/eventhook/eventhook/internal/web"
)

// signInPage is the data of the page on which a person signs in.
type signInPage struct {
	Root, Theme, Next, Fault string
	Code                     string // of a one-time link
	OpenID                   string // name of the provider; "" without one
	Title, Version           string
}

// maxSignIn limits the body of a form with which a person signs in, in bytes.
const maxSignIn = 16 << 10

func (c *Console) registerSignIn() {
	var crossOrigin http.CrossOriginProtection
	c.mux.HandleFunc("GET "+Root+"/sign-in", c.serveSignIn)
	c.mux.Handle("POST "+Root+"/sign-in", crossOrigin.Handler(http.HandlerFunc(c.signIn)))
	c.mux.HandleFunc("GET "+Root+"/link", c.serveLink)
	c.mux.Handle("POST "+Root+"/link", crossOrigin.Handler(http.HandlerFunc(c.redeemLink)))
	c.mux.HandleFunc("POST "+Root+"/sign-out", c.signOut)
	if c.OpenID != nil {
		c.mux.HandleFunc("GET "+Root+"/openid", web.GetOnly(c.beginOpenID))
		c.mux.HandleFunc("GET "+Root+"/openid/callback", web.GetOnly(c.finishOpenID))
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
	r.Body = http.MaxBytesReader(w, r.Body, maxSignIn)
	key := strings.TrimSpace(r.PostFormValue("key"))
	if key == "" {
		c.renderSignIn(w, r, http.StatusUnprocessableEntity, "Enter a key. It begins with ehk_, unless it is an admin key.")
		return
	}
	hash := sha256.Sum256([]byte(key))
	identity, err := c.identify(r, key)
	if err != nil {
		if client.StatusOf(err) == http.StatusUnauthorized {
			c.recordRefusal(r, session.Session{KeyHash: hash[:]})
		}
		status, fault := c.signInFault(r, err)
		web.SetRetryAfter(w.Header(), client.RetryAfterOf(err))
		c.renderSignIn(w, r, status, fault)
		return
	}
	s := session.Session{Kind: session.Console, KeyHash: hash[:], Name: identity.Name}
	if identity.Tenant != nil {
		s.TenantSlug = identity.Tenant.Slug
	}
	c.start(w, r, s, r.PostFormValue("next"))
}

func (c *Console) identify(r *http.Request, key string) (client.Identity, error) {
	gateway, err := clientOf(web.Transport{Handler: c.API, Request: r}, key)
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
	_, err := c.Sessions.Start(context.WithoutCancel(r.Context()), w, r, s)
	switch {
	case eventhook.KindOf(err) == eventhook.KindRateLimited:
		c.refuseSignIn(w, r, err)
	case err != nil:
		c.Log.Error("a session cannot be stored", "error", err)
		c.renderSignIn(w, r, http.StatusServiceUnavailable, "The gateway could not store the session. Try again in a few seconds.")
	}
	return err == nil
}

// recordRefusal records that a person or a key was refused. A failure changes nothing for the person.
func (c *Console) recordRefusal(r *http.Request, s session.Session) {
	if err := c.Sessions.Refuse(r, s); err != nil {
		c.Log.Error("a refused sign-in cannot be recorded", "error", err)
	}
}

// refuseSignIn shows the limit of sessions that an error tells.
func (c *Console) refuseSignIn(w http.ResponseWriter, r *http.Request, limit error) {
	if problem, ok := errors.AsType[*client.Problem](problemOf(limit)); ok {
		web.SetRetryAfter(w.Header(), problem.RetryAfter)
		c.renderSignIn(w, r, problem.Status, problem.Detail)
	}
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
	u, ok := web.PathBelow(Root, next)
	if !ok || strings.HasPrefix(u.Path, Root+"/sign-") {
		return Root
	}
	return u.RequestURI()
}
