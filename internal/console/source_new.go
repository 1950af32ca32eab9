package console

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/eventhook/eventhook/client"
)

// newSource is the data of the form that creates a source.
type newSource struct {
	Form     form
	Provider *client.Provider // nil for a custom verifier
	Verifier string           // type of the custom verifier
	Schemes  []client.Provider
	Guide    guide
	URL      string // that the source will have
	URLBase  string // the same without the slug
	// AsksSecrets and AsksKeys tell which fields the provider needs; NeedsSecrets and NeedsKeys which
	// of them must be set.
	AsksSecrets, NeedsSecrets, AsksKeys, NeedsKeys bool
	// Sends is true if the provider sends the secret itself in a handshake.
	Sends bool
}

// newSourceForm shows the form for a provider and scheme, or for a type of verifier.
func (r *request) newSourceForm(all []client.Provider, provider, verifier string) (newSource, error) {
	data := newSource{Verifier: verifier}
	scheme := r.URL.Query().Get("scheme")
	if r.Method == http.MethodPost {
		scheme = r.PostForm.Get("scheme")
	}
	for _, p := range all {
		if p.ID != provider {
			continue
		}
		data.Schemes = append(data.Schemes, p)
		if data.Provider == nil || p.Scheme == scheme {
			data.Provider = &p
		}
	}
	if data.Provider == nil && !slices.Contains(verifierTypes, verifier) {
		return data, &client.Problem{Title: "Not Found", Status: http.StatusNotFound, Detail: "No provider has this name. Choose one from the grid."}
	}
	data.describe()
	data.Form = r.formOf(data.defaults(), data.fields()...)
	base, err := r.ingestURL("")
	if err != nil {
		return data, err
	}
	data.URLBase, data.URL = base, base+data.Form.Get("slug")
	return data, nil
}

// sourceSecrets are the fields for secrets of the forms of a source.
var sourceSecrets = []string{"secrets", "verifier.secrets", "verifier.values", "verifier.password"}

// view shows the form, without the secrets that were typed.
func (d newSource) view() view {
	d.Form.hide(sourceSecrets...)
	return view{Title: "Set up " + d.Name(), Page: "source_new", Data: d}
}

// describe derives from the provider what the form asks for.
func (d *newSource) describe() {
	if d.Provider == nil {
		return
	}
	d.Guide = guideOf(d.Provider.ID, d.Provider.Name)
	d.NeedsSecrets = slices.Contains(d.Provider.RequiredFields, "secrets")
	d.NeedsKeys = slices.Contains(d.Provider.RequiredFields, "public_keys")
	d.Sends = d.Provider.ID == "asana" || d.Provider.ID == "notion"
	d.AsksSecrets = d.NeedsSecrets || d.Provider.ID == "standard-webhooks"
	d.AsksKeys = d.NeedsKeys || d.Provider.ID == "standard-webhooks"
}

// Name is the provider's name or that of the verifier.
func (d newSource) Name() string {
	if d.Provider != nil {
		return d.Provider.Name
	}
	return "a source: " + verifierNames[d.Verifier]
}

// CanGenerate is true if the person chooses the secret, so that the console can generate it.
func (d newSource) CanGenerate() bool {
	if d.Provider != nil {
		return d.AsksSecrets && d.Guide.ChoosesSecret
	}
	return d.Verifier == "hmac" || d.Verifier == "api_key"
}

func (d newSource) defaults() url.Values {
	if d.Provider != nil {
		return url.Values{"slug": {d.Provider.ID}, "name": {d.Provider.Name}}
	}
	return url.Values{"slug": {"webhooks"}, "verifier.header": {map[string]string{"hmac": "X-Signature", "api_key": "X-Api-Key"}[d.Verifier]}}
}

// fields are the names of the form.
func (d newSource) fields() []string {
	names := []string{"slug", "name", "secrets", "public_keys", "scheme", "provider", "verifier.header", "verifier.prefix", "verifier.encoding",
		"verifier.algorithm", "verifier.signed", "verifier.timestamp_header", "verifier.secrets", "verifier.values", "verifier.username", "verifier.password"}
	if d.Provider != nil {
		for _, o := range d.Provider.Options {
			names = append(names, "options."+o.Name)
		}
	}
	return append(names, "options", "verifier")
}

// createSource creates the source and leads to the wait for its first event. A generated secret is
// shown in between, once.
func (c *Console) createSource(r *request) (view, error) {
	if err := r.ParseForm(); err != nil {
		return view{}, err
	}
	all, err := r.providers()
	if err != nil {
		return view{}, err
	}
	data, err := r.newSourceForm(all, r.PostForm.Get("provider"), r.PostForm.Get("verifier"))
	if err != nil {
		return view{}, err
	}
	secret := ""
	if r.PostForm.Get("generate") != "" {
		secret = strings.ToLower(rand.Text())
	}
	created, err := r.sendSource(&data, secret)
	if err != nil {
		if !data.Form.refuse(err) {
			return view{}, err
		}
		shown := data.view()
		shown.Status = http.StatusUnprocessableEntity
		return shown, nil
	}
	waiting := r.base() + "/sources/" + url.PathEscape(created.Slug) + "/waiting"
	if secret == "" {
		return redirect(waiting, "")
	}
	return view{Title: "Secret of " + created.Name, Page: "source_secret", Data: shownSecret{
		Source: created, Tab: "source", Secret: secret, Next: waiting,
		About: "Enter it at the sender as the secret of the webhook, together with the URL."}}, nil
}

func (r *request) sendSource(d *newSource, secret string) (client.Source, error) {
	raw, err := d.body(secret)
	if err != nil {
		return client.Source{}, err
	}
	return r.api.CreateSourceFrom(r.detached(), r.tenant, raw)
}

// body returns the request that creates the source.
func (d *newSource) body(secret string) (json.RawMessage, error) {
	m := membersOf(&d.Form, false)
	m.texts("slug", "name")
	if d.Provider != nil {
		m.set("provider", d.Provider.ID)
		m.set("scheme", d.Provider.Scheme)
		m.lists("secrets", "public_keys")
		for _, o := range d.Provider.Options {
			m.texts("options." + o.Name)
		}
	} else {
		d.verifier(m)
	}
	if secret != "" {
		m.set(cmp.Or(map[string]string{"hmac": "verifier.secrets", "api_key": "verifier.values"}[d.Verifier], "secrets"), []string{secret})
	}
	return m.body()
}

func (d *newSource) verifier(m members) {
	m.set("verifier.type", d.Verifier)
	switch d.Verifier {
	case "hmac":
		m.texts("verifier.header", "verifier.prefix", "verifier.encoding", "verifier.algorithm", "verifier.signed", "verifier.timestamp_header")
		m.lists("verifier.secrets")
	case "api_key":
		m.texts("verifier.header")
		m.lists("verifier.values")
	case "basic_auth":
		m.texts("verifier.username", "verifier.password")
	}
}
