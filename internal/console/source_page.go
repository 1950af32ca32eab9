package console

import (
	"strings"
	"time"

	"github.com/eventhook/eventhook/client"
)

// sourceView is the data of the page of a source.
type sourceView struct {
	Source       client.Source
	Tab          string
	Verification string
	Handshake    client.Handshake
	Routes       []routeRow
	Refusal      *client.Rejection
	Remedy       remedy
	Counts       []client.RejectionCount
	Facts        []fact
}

// shownRefusal is how long the page of a source shows its last refusal.
const shownRefusal = 24 * time.Hour

// fact is a setting in a page.
type fact struct{ Name, Value string }

func (c *Console) source(r *request) (view, error) {
	source, err := r.api.GetSource(r.Context(), r.tenant, r.PathValue("slug"))
	if err != nil {
		return view{}, err
	}
	data := sourceView{Source: source, Tab: "source", Verification: verification(source), Facts: factsOf(source)}
	if data.Routes, err = r.routes(source.Slug); err != nil {
		return view{}, err
	}
	one := int64(1)
	refused, err := r.api.ListRejections(r.Context(), r.tenant, source.Slug, client.ListRejectionsParams{Limit: &one})
	if err != nil {
		return view{}, err
	}
	data.Counts = refused.Counts
	if len(refused.Items) > 0 && c.Now().Sub(refused.Items[0].RejectedAt) < shownRefusal {
		data.Refusal, data.Remedy = &refused.Items[0], remedyOf(refused.Items[0].Reason)
	}
	data.Handshake, err = r.api.GetHandshake(r.Context(), r.tenant, source.Slug)
	return view{Title: source.Name, Data: data}, err
}

// factsOf returns the settings that differ from the defaults.
func factsOf(s client.Source) []fact {
	var facts []fact
	add := func(name string, values ...string) {
		if text := strings.Join(values, ", "); text != "" {
			facts = append(facts, fact{name, text})
		}
	}
	facts = append(facts, factsOfBroker(s.Consume)...)
	add("Idempotency key", s.IdempotencyKeyPaths...)
	add("Event type", s.EventTypePaths...)
	add("Allowed addresses", s.AllowedIPRanges...)
	add("Content types", s.ContentTypes...)
	for _, name := range sortedNames(s.Options) {
		add("Option "+name, s.Options[name])
	}
	return facts
}

// rejectionList is the data of the refused requests of a source.
type rejectionList struct {
	Source     client.Source
	Tab        string
	Rejections []rejectionRow
	Counts     []countRow
	Pager      pager
}

type rejectionRow struct {
	client.Rejection
	Remedy remedy
}

type countRow struct {
	client.RejectionCount
	Remedy remedy
}

func (c *Console) rejections(r *request) (view, error) {
	source, err := r.api.GetSource(r.Context(), r.tenant, r.PathValue("slug"))
	if err != nil {
		return view{}, err
	}
	cursor, limit := r.cursor()
	found, err := r.api.ListRejections(r.Context(), r.tenant, source.Slug, client.ListRejectionsParams{Cursor: cursor, Limit: limit})
	if err != nil {
		return view{}, err
	}
	list := rejectionList{Source: source, Tab: "rejections", Pager: r.pager(found.NextCursor)}
	for _, x := range found.Items {
		list.Rejections = append(list.Rejections, rejectionRow{x, remedyOf(x.Reason)})
	}
	for _, x := range found.Counts {
		list.Counts = append(list.Counts, countRow{x, remedyOf(x.Reason)})
	}
	return view{Title: "Refused by " + source.Name, Data: list}, nil
}
