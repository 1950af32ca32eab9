package console

import (
	"net/http"
	"net/url"
	"time"

	"github.com/eventhook/eventhook/client"
)

var keyPages = []page{
	{pattern: "GET /console/t/{tenant}/keys", reads: []string{"manage"}, template: "keys", handle: (*Console).keys},
	{pattern: "GET /console/t/{tenant}/keys/new", needs: needsAdmin, template: "key_new", handle: (*Console).newKey},
	{pattern: "POST /console/t/{tenant}/keys/new", needs: needsAdmin, template: "key_new", handle: (*Console).createKey},
	{pattern: "POST /console/t/{tenant}/keys/{id}/delete", needs: needsAdmin, handle: (*Console).deleteKey},
}

// keyRow is a key in the list.
type keyRow struct {
	client.Key
	State string // active, expiring or expired
}

// keyList is the data of the list of keys.
type keyList struct {
	Keys  []keyRow
	Pager pager
}

// keys lists the keys of the tenant: with the admin's operation for admins, which read keys of every
// tenant.
func (c *Console) keys(r *request) (view, error) {
	cursor, limit := r.cursor()
	var found client.KeyPage
	var err error
	if r.isAdmin() {
		found, err = r.api.ListKeys(r.Context(), r.tenant, client.ListKeysParams{Cursor: cursor, Limit: limit})
	} else {
		found, err = r.api.ListOwnKeys(r.Context(), r.tenant, client.ListOwnKeysParams{Cursor: cursor, Limit: limit})
	}
	list := keyList{Pager: r.pager(found.NextCursor)}
	for _, k := range found.Items {
		list.Keys = append(list.Keys, keyRow{k, c.stateOfKey(k)})
	}
	return view{Title: "API keys", Data: list}, err
}

func (c *Console) stateOfKey(k client.Key) string {
	const soon = 14 * 24 * time.Hour
	switch now := c.Now(); {
	case k.ExpiresAt == nil:
		return "active"
	case !k.ExpiresAt.After(now):
		return "expired"
	case k.ExpiresAt.Before(now.Add(soon)):
		return "expiring"
	}
	return "active"
}

// scopeChoice is a box of the form for a key.
type scopeChoice struct{ Scope, About string }

var scopeChoices = []scopeChoice{
	{"read", "read sources, events, subscriptions and deliveries"},
	{"manage", "change sources, routes, subscriptions, event types and agents; replay; read keys and the audit log"},
	{"publish", "publish events"},
	{"work", "claim, start, cancel and retry work; settle promises"},
	{"deliver", "claim and report deliveries, as agents do"},
}

// keyForm is the data of the form for a key; Made is the key after it is created.
type keyForm struct {
	Form   form
	Scopes []scopeChoice
	Made   *client.Key
}

func (c *Console) newKey(r *request) (view, error) {
	return view{Title: "Create a key", Data: keyForm{Form: r.formOf(url.Values{"scopes": {"read"}}, "name", "scopes", "expires_at"), Scopes: scopeChoices}}, nil
}

func (c *Console) createKey(r *request) (view, error) {
	if err := r.ParseForm(); err != nil {
		return view{}, err
	}
	f := r.formOf(nil, "name", "scopes", "expires_at")
	body := client.KeyCreate{Name: f.Get("name"), Scopes: append([]string{}, f.Values["scopes"]...), ExpiresAt: f.time("expires_at")}
	if f.isReadable() {
		made, err := r.api.CreateKey(r.detached(), r.tenant, body)
		if err == nil {
			return view{Title: "The key " + made.Name, Data: keyForm{Made: &made}}, nil
		}
		if !f.refuse(err) {
			return view{}, err
		}
	}
	return view{Title: "Create a key", Data: keyForm{Form: f, Scopes: scopeChoices}, Status: http.StatusUnprocessableEntity}, nil
}

func (c *Console) deleteKey(r *request) (view, error) {
	if err := r.api.DeleteKey(r.detached(), r.tenant, r.PathValue("id")); err != nil {
		return view{}, err
	}
	return redirect(r.base()+"/keys", "The key is deleted. Every instance refuses it within a second.")
}
