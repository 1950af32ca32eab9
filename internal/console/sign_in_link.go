package console

import (
	"net/http"

	"github.com/eventhook/eventhook"
)

// serveLink shows a button that signs in with the one-time link that the gateway prints at its start.
// The request itself uses nothing up: a program that shows a preview of the link sends it, too.
func (c *Console) serveLink(w http.ResponseWriter, r *http.Request) {
	c.render(w, r, "link", http.StatusOK, signInPage{Root: Root, Theme: themeOf(r), Code: r.URL.Query().Get("code"), Version: c.Version})
}

// redeemLink signs in with a one-time link.
func (c *Console) redeemLink(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxSignIn)
	s, err := c.Sessions.Redeem(r, r.PostFormValue("code"))
	switch kind := eventhook.KindOf(err); {
	case kind == eventhook.KindNotFound:
		c.refuseLink(w, r)
	case kind == eventhook.KindRateLimited:
		c.refuseSignIn(w, r, err)
	case err != nil:
		c.Log.Error("a sign-in link cannot be read", "error", err)
		c.renderSignIn(w, r, http.StatusServiceUnavailable, "The gateway could not check the link. Try again in a few seconds.")
	default:
		c.start(w, r, s, Root)
	}
}

// refuseLink responds to a link that was used: with the console, if the button was pressed twice.
func (c *Console) refuseLink(w http.ResponseWriter, r *http.Request) {
	if _, _, err := c.Sessions.Read(r); err == nil {
		http.Redirect(w, r, Root, http.StatusSeeOther)
		return
	}
	c.renderSignIn(w, r, http.StatusGone, "This link was used already, or has expired. Sign in with a key.")
}
