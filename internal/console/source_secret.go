package console

import "github.com/eventhook/eventhook/client"

// shownSecret is the data of the page that shows a secret once.
type shownSecret struct {
	Source             client.Source
	Tab, Secret, About string
	Next               string // path of the page to go on with
}

// sourcePath returns the path of the source's page.
func (r *request) sourcePath() string { return r.base() + "/sources/" + segment(r.PathValue("slug")) }

// revealHandshake shows the secret that a provider sent in its handshake, once.
func (c *Console) revealHandshake(r *request) (view, error) {
	source, err := r.api.GetSource(r.Context(), r.tenant, r.PathValue("slug"))
	if err != nil {
		return view{}, err
	}
	answer, err := r.api.RevealHandshakeSecret(r.detached(), r.tenant, source.Slug)
	if err != nil {
		return view{}, err
	}
	return view{Title: "Secret of " + source.Name, Data: shownSecret{Source: source, Tab: "source", Secret: answer.Secret, Next: r.sourcePath(),
		About: "Confirm it at the provider. The source accepts webhooks that are signed with it from now on."}}, nil
}

func (c *Console) resetHandshake(r *request) (view, error) {
	if err := r.api.ResetHandshake(r.detached(), r.tenant, r.PathValue("slug")); err != nil {
		return view{}, err
	}
	return redirect(r.sourcePath(), "The handshake is reset. The source waits for the secret of the provider.")
}
