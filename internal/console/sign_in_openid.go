package console

import (
	"net/http"

	"github.com/eventhook/eventhook"
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
	// error's text is shown to the person; its kind is KindRateLimited for a limit. If the provider has
	// confirmed a person who has no permissions, s.Name is the person's name beside the error.
	Finish(w http.ResponseWriter, r *http.Request) (s session.Session, next string, err error)
	// Grant returns the permissions that the person of a session has now; nil without any.
	Grant(s session.Session) *eventhook.Grant
}

func (c *Console) beginOpenID(w http.ResponseWriter, r *http.Request) {
	if err := c.OpenID.Begin(w, r, nextOf(r.URL.Query().Get("next"))); err != nil {
		c.renderSignIn(w, r, http.StatusBadGateway, err.Error())
	}
}

// finishOpenID starts the session of a person who comes back from the provider.
func (c *Console) finishOpenID(w http.ResponseWriter, r *http.Request) {
	s, next, err := c.OpenID.Finish(w, r)
	switch {
	case eventhook.KindOf(err) == eventhook.KindRateLimited:
		c.refuseSignIn(w, r, err)
	case err != nil:
		if s.Name != "" {
			c.recordRefusal(r, s)
		}
		c.renderSignIn(w, r, http.StatusForbidden, err.Error())
	case c.store(w, r, s):
		c.renderContinue(w, r, nextOf(next))
	}
}

// renderContinue shows a page that opens another page of the console at once. A browser sends a
// cookie with SameSite=Strict only with requests that begin at a page of the console, so a redirect
// of a request that began on another site would arrive without the session.
func (c *Console) renderContinue(w http.ResponseWriter, r *http.Request, to string) {
	c.render(w, r, "continue", http.StatusOK, signInPage{Root: Root, Theme: themeOf(r), Next: to, Version: c.Version})
}
