package console

import (
	"slices"
	"strings"

	"github.com/eventhook/eventhook/client"
)

// chooser is the data of the grid of providers.
type chooser struct {
	Popular, Providers []client.Provider
	Verifiers, Brokers []choiceOfSender
}

// choiceOfSender is a tile for senders that are no provider: a type of verifier, or of broker.
type choiceOfSender struct{ Type, Name, About string }

var verifierChoices = []choiceOfSender{
	{"hmac", verifierNames["hmac"], "The sender signs the body with a shared secret."},
	{"api_key", verifierNames["api_key"], "The sender sends a fixed token in a header."},
	{"basic_auth", verifierNames["basic_auth"], "The sender sends a user and a password."},
	{"none", "No verification", "Anybody who knows the URL can send. For tests only."},
}

// chooseProvider shows the grid of providers, or with the parameter provider, verifier or consume the
// form that creates a source.
func (c *Console) chooseProvider(r *request) (view, error) {
	all, err := r.providers()
	if err != nil {
		return view{}, err
	}
	if q := r.URL.Query(); q.Get("provider") != "" || q.Get("verifier") != "" || q.Get("consume") != "" {
		form, err := r.newSourceForm(all, q)
		return form.view(), err
	}
	data := chooser{Verifiers: verifierChoices, Brokers: brokerChoices}
	for _, p := range all {
		if !slices.ContainsFunc(data.Providers, func(have client.Provider) bool { return have.ID == p.ID }) {
			data.Providers = append(data.Providers, p) // the first scheme of a provider is its default
		}
	}
	slices.SortStableFunc(data.Providers, func(a, b client.Provider) int {
		return strings.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name))
	})
	for _, id := range popularProviders {
		if i := slices.IndexFunc(data.Providers, func(p client.Provider) bool { return p.ID == id }); i >= 0 {
			data.Popular = append(data.Popular, data.Providers[i])
			data.Providers = slices.Delete(data.Providers, i, i+1)
		}
	}
	return view{Title: "Set up a source", Data: data}, nil
}

// providers returns all presets: one entry per scheme.
func (r *request) providers() (all []client.Provider, err error) {
	const perPage = 200
	limit := int64(perPage)
	for p, err := range r.api.AllProviders(r.Context(), r.tenant, client.ListProvidersParams{Limit: &limit}) {
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}
