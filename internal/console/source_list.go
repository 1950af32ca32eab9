package console

import (
	"cmp"
	"strings"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/web"
)

var sourcePages = []page{
	{pattern: "GET /console/t/{tenant}/sources", template: "sources", handle: (*Console).sources, isLive: true},
	{pattern: "GET /console/t/{tenant}/sources/new", needs: "manage",
		template: "source_choose", handle: (*Console).chooseProvider},
	{pattern: "POST /console/t/{tenant}/sources/new", needs: "manage",
		template: "source_new", handle: (*Console).createSource},
	{pattern: "GET /console/t/{tenant}/sources/{slug}", template: "source", handle: (*Console).source, isLive: true},
	{pattern: "GET /console/t/{tenant}/sources/{slug}/waiting", template: "source_waiting", handle: (*Console).waitForEvent, isLive: true},
	{pattern: "GET /console/t/{tenant}/sources/{slug}/settings", needs: "manage",
		template: "source_settings", handle: (*Console).sourceSettings},
	{pattern: "POST /console/t/{tenant}/sources/{slug}/settings", needs: "manage",
		template: "source_settings", handle: (*Console).updateSource},
	{pattern: "GET /console/t/{tenant}/sources/{slug}/rejections", template: "source_rejections", handle: (*Console).rejections, isLive: true},
	{pattern: "GET /console/t/{tenant}/sources/{slug}/test", needs: "manage",
		template: "source_trial", handle: (*Console).trySource},
	{pattern: "POST /console/t/{tenant}/sources/{slug}/test", needs: "manage",
		template: "source_trial", handle: (*Console).trySource},
	{pattern: "POST /console/t/{tenant}/sources/{slug}/delete", needs: "manage", handle: (*Console).deleteSource},
	{pattern: "POST /console/t/{tenant}/sources/{slug}/handshake/reveal", needs: "manage",
		template: "source_secret", handle: (*Console).revealHandshake},
	{pattern: "POST /console/t/{tenant}/sources/{slug}/handshake/reset", needs: "manage",
		handle: (*Console).resetHandshake},
}

// sourceRow is a source in the list. LastRefusal is nil if the source never refused a request.
type sourceRow struct {
	client.Source
	LastRefusal *client.Rejection
}

// Verification names the verifier of the requests.
func (s sourceRow) Verification() string { return verification(s.Source) }

type sourceList struct {
	Sources []sourceRow
	Pager   pager
}

// sources lists the sources. The last refusal of each one costs a call, so that a page of the list
// is short.
func (c *Console) sources(r *request) (view, error) {
	const perPage = 25
	limit := int64(perPage)
	found, err := r.api.ListSources(r.Context(), r.tenant, client.ListSourcesParams{Cursor: r.filter("cursor"), Limit: &limit})
	if err != nil {
		return view{}, err
	}
	list := sourceList{Pager: r.pager(found.NextCursor)}
	for _, s := range found.Items {
		refused, err := r.lastRefusal(s.Slug)
		if err != nil {
			return view{}, err
		}
		list.Sources = append(list.Sources, sourceRow{s, refused})
	}
	return view{Title: "Sources", Data: list}, nil
}

// lastRefusal returns the newest request that a source refused; nil if there is none.
func (r *request) lastRefusal(slug string) (*client.Rejection, error) {
	one := int64(1)
	found, err := r.api.ListRejections(r.Context(), r.tenant, slug, client.ListRejectionsParams{Limit: &one})
	if err != nil || len(found.Items) == 0 {
		return nil, err
	}
	return &found.Items[0], nil
}

// verification names the verifier of a source.
func verification(s client.Source) string {
	switch {
	case s.Consume != nil:
		return "consumes messages of " + brokerNames[s.Consume.Type]
	case s.Provider != nil && s.Scheme != nil && *s.Scheme != *s.Provider:
		return *s.Provider + " (" + *s.Scheme + ")"
	case s.Provider != nil:
		return *s.Provider
	case s.Verifier != nil:
		return cmp.Or(verifierNames[string(s.Verifier.Type)], string(s.Verifier.Type))
	}
	return "unknown"
}

// ingestURL returns the URL that a source with a slug will have. It is that of another source with
// the slug replaced, because only the API knows its public URL; without a source, that of the
// request.
func (r *request) ingestURL(slug string) (string, error) {
	one := int64(1)
	found, err := r.api.ListSources(r.Context(), r.tenant, client.ListSourcesParams{Limit: &one})
	if err != nil {
		return "", err
	}
	if len(found.Items) > 0 {
		if before, ok := strings.CutSuffix(found.Items[0].IngestURL, "/"+found.Items[0].Slug); ok {
			return before + "/" + slug, nil
		}
	}
	return r.origin() + "/api/tenants/" + r.tenant + "/eventhook/in/" + slug, nil
}

// origin returns the URL at which the browser reaches the gateway.
func (r *request) origin() string {
	if r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https") {
		return "https://" + web.HostOf(r.Request)
	}
	return "http://" + web.HostOf(r.Request)
}
