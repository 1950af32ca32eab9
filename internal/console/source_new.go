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
	Provider *client.Provider   // nil for a custom verifier, and for a broker
	Verifier string             // type of the custom verifier; "" for another sender
	Broker   client.ConsumeType // whose messages the source will consume; "" for webhooks
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

// newSourceForm shows the form for a provider and scheme, for a type of verifier, or for a type of broker.
func (r *request) newSourceForm(all []client.Provider, chosen url.Values) (newSource, error) {
	data := newSource{Verifier: chosen.Get("verifier"), Broker: client.ConsumeType(chosen.Get("consume"))}
	for _, p := range all {
		if p.ID != chosen.Get("provider") {
			continue
		}
		data.Schemes = append(data.Schemes, p)
		if data.Provider == nil || p.Scheme == chosen.Get("scheme") {
			data.Provider = &p
		}
	}
	if data.Provider == nil && !slices.Contains(verifierTypes, data.Verifier) && data.Fields() == nil {
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
	_, secrets := consumeNames(d.Fields())
	d.Form.hide(slices.Concat(sourceSecrets, secrets)...)
	return view{Title: "Set up " + d.Name(), Page: "source_new", Data: d}
}

// refused shows the form again.
func (d newSource) refused() (view, error) {
	v := d.view()
	v.Status = http.StatusUnprocessableEntity
	return v, nil
}

// Fields are the fields of the broker's settings.
func (d newSource) Fields() []settingField { return consumeFields(d.Broker) }

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

// Name is the name of the provider, the verifier or the broker.
func (d newSource) Name() string {
	switch {
	case d.Provider != nil:
		return d.Provider.Name
	case d.Broker != "":
		return "a source: messages of " + brokerNames[d.Broker]
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
	switch {
	case d.Provider != nil:
		return url.Values{"slug": {d.Provider.ID}, "name": {d.Provider.Name}}
	case d.Broker != "":
		return url.Values{"slug": {"messages"}}
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
	broker, _ := consumeNames(d.Fields())
	return append(append(names, broker...), "options", "verifier", "consume")
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
	data, err := r.newSourceForm(all, r.PostForm)
	if err != nil {
		return view{}, err
	}
	secret := ""
	if r.PostForm.Get("generate") != "" {
		secret = strings.ToLower(rand.Text())
	}
	raw, err := data.body(secret)
	if err != nil {
		return view{}, err
	}
	if len(data.Form.Faults) > 0 {
		return data.refused()
	}
	created, err := r.api.CreateSourceFrom(r.detached(), r.tenant, raw)
	if err != nil {
		if !data.Form.refuse(err) {
			return view{}, err
		}
		return data.refused()
	}
	waiting := r.base() + "/sources/" + url.PathEscape(created.Slug) + "/waiting"
	if secret == "" {
		return redirect(waiting, "")
	}
	return view{Title: "Secret of " + created.Name, Page: "source_secret", Data: shownSecret{
		Source: created, Tab: "source", Secret: secret, Next: waiting,
		About: "Enter it at the sender as the secret of the webhook, together with the URL."}}, nil
}

// body returns the request that creates the source.
func (d *newSource) body(secret string) (json.RawMessage, error) {
	m := membersOf(&d.Form, false)
	m.texts("slug", "name")
	switch {
	case d.Provider != nil:
		m.set("provider", d.Provider.ID)
		m.set("scheme", d.Provider.Scheme)
		m.lists("secrets", "public_keys")
		for _, o := range d.Provider.Options {
			m.texts("options." + o.Name)
		}
	case d.Broker != "":
		m.consume(d.Broker)
	default:
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
