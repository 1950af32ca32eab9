package api

import (
	"context"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/verify"
)

// Provider is a preset in the form of the API.
type Provider struct {
	ID                  string           `json:"id" example:"github"`
	Scheme              string           `json:"scheme" doc:"Verification scheme. The first scheme of a provider is its default."`
	Name                string           `json:"name" doc:"Display name."`
	DocumentationURL    string           `json:"documentation_url" doc:"The provider's documentation of webhooks."`
	RequiredFields      []string         `json:"required_fields" doc:"Fields that a source of this provider must set." example:"[\"secrets\"]"`
	Options             []ProviderOption `json:"options" doc:"Members of a source's options."`
	IdempotencyKeyPaths []string         `json:"idempotency_key_paths" doc:"Default paths of the idempotency key."`
	EventTypePaths      []string         `json:"event_type_paths" doc:"Default paths of the event type."`
	ReplayProtection    string           `json:"replay_protection" enum:"body,off" doc:"Default for sources of this provider."`
	Handshake           *string          `json:"handshake" doc:"Name of the provider's handshake; null if there is none."`
	CoversBody          bool             `json:"covers_body" doc:"Whether the signature covers the body."`
	Uncovered           *string          `json:"uncovered" doc:"Parts of a request that the signature does not cover."`
	Note                *string          `json:"note" doc:"Common mistake when setting up this provider."`
	Methods             []string         `json:"methods" doc:"HTTP methods of the provider's requests."`
}

// ProviderOption is an option of a provider's verifier or handshake.
type ProviderOption struct {
	Name     string  `json:"name"`
	Required bool    `json:"required" doc:"Whether a source must set the option."`
	About    string  `json:"about" doc:"Description of the option."`
	Default  *string `json:"default" doc:"Null if there is no default."`
}

// Providers returns all presets, ordered by id, the default scheme of each provider
// first.
func Providers() []Provider {
	var all []Provider
	for _, p := range verify.Presets() {
		v := Provider{
			ID: p.ID, Scheme: p.Scheme, Name: p.Name, DocumentationURL: p.DocumentationURL, RequiredFields: list(p.RequiredFields()),
			Options: []ProviderOption{}, IdempotencyKeyPaths: list(p.IdempotencyKeyPaths), EventTypePaths: list(p.EventTypePaths),
			ReplayProtection: verify.Spec{Provider: p.ID, Scheme: p.Scheme}.ReplayProtection(), Handshake: optional(p.Handshake), CoversBody: p.CoversBody(), Uncovered: optional(p.Uncovered), Note: optional(p.Note),
			Methods: append([]string{http.MethodPost}, p.Methods...),
		}
		for _, o := range p.Options {
			v.Options = append(v.Options, ProviderOption{Name: o.Name, Required: o.Required || o.Pins, About: o.About, Default: optional(o.Default)})
		}
		all = append(all, v)
	}
	return all
}

// list returns texts, or an empty list for nil, so that JSON never has null.
func list(texts []string) []string {
	if texts == nil {
		return []string{}
	}
	return texts
}

func (s *server) registerProviders(api huma.API) {
	register(s, api, operation{id: "list-providers", method: http.MethodGet, path: base + "/providers", scope: eventhook.ScopeRead, tag: "sources", class: fixed,
		summary: "List providers",
		about:   "Lists the presets that a source can use, ordered by id. A provider with several schemes has one entry per scheme, its default first."}, s.listProviders)
}

type providersQuery struct {
	TenantPath
	PageQuery
}

// listProviders pages by index, since the list of a version never changes.
func (s *server) listProviders(_ context.Context, by caller, in *providersQuery) (*page[Provider], error) {
	pages, all := s.pager("providers", by.tenant), Providers()
	after := 0
	if in.Cursor != "" {
		position, err := pages.decode(in.Cursor)
		if err == nil {
			after, err = strconv.Atoi(string(position))
		}
		if err != nil || after < 1 || after >= len(all) {
			return nil, errCursor
		}
	}
	p := &page[Provider]{}
	p.Body.Items = all[after:min(after+in.Limit, len(all))]
	if next := after + in.Limit; next < len(all) {
		p.Body.NextCursor = pages.encode([]byte(strconv.Itoa(next)))
	}
	return p, nil
}
