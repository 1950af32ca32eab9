package api

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eventhook/eventhook"
)

// SourceStore stores sources and writes the audit log. KindConflict: the slug exists
// already, the tenant is closed, or the source to be deleted is in use. ErrStale: the
// version is not the current one. See internal/pg.
type SourceStore interface {
	// Source and Sources return a source without secrets if these cannot be decrypted.
	Source(ctx context.Context, tenant eventhook.TenantID, slug string) (eventhook.Source, error)
	Sources(ctx context.Context, tenant eventhook.TenantID, before eventhook.SourceID, limit int) ([]eventhook.Source, error)
	CreateSource(ctx context.Context, by eventhook.Actor, s eventhook.Source) (eventhook.Source, error)
	UpdateSource(ctx context.Context, by eventhook.Actor, tenant eventhook.TenantID, slug string, version int64, change func(eventhook.Source) (eventhook.Source, error)) (eventhook.Source, error)
	// ConsumerStates returns the states of those sources that consume messages.
	ConsumerStates(ctx context.Context, sources []eventhook.SourceID) (map[eventhook.SourceID]eventhook.ConsumerState, error)
	DeleteSource(ctx context.Context, by eventhook.Actor, tenant eventhook.TenantID, slug string, version int64, cascade bool) error
}

// UsageStore returns statistics of sources. Sources without events may be missing.
type UsageStore interface {
	SourceStats(ctx context.Context, sources []eventhook.SourceID) (map[eventhook.SourceID]eventhook.SourceStats, error)
}

func (s *server) registerSources(api huma.API) {
	op := func(id, method, path, summary string, scope eventhook.Scope) operation {
		return operation{id: id, method: method, path: base + "/sources" + path, summary: summary, scope: scope, tag: "sources"}
	}
	create := op("create-source", http.MethodPost, "", "Create a source", eventhook.ScopeManage)
	create.status, create.skipsShape = http.StatusCreated, true
	create.about = "Requires either a provider, which defines how requests are verified, a custom verifier, or consume, with which the source consumes messages of a broker."
	update := op("update-source", http.MethodPatch, "/{slug}", "Update a source", eventhook.ScopeManage)
	update.skipsShape, update.about = true, "The body is a JSON merge patch: omitted members, including secrets, keep their value, null resets a member to its default. A verifier of another type replaces the whole verifier."
	create.maxBody, update.maxBody = configBody, configBody
	remove := op("delete-source", http.MethodDelete, "/{slug}", "Delete a source", eventhook.ScopeManage)
	remove.status, remove.about = http.StatusNoContent, "Events of the source are not deleted. 409 if the source has routes or events that are still to be processed, "+
		"unless cascade is true. With cascade, such events become unrouted: actions that succeeded stay, the others are never executed."
	register(s, api, create, s.createSource)
	register(s, api, op("list-sources", http.MethodGet, "", "List sources", eventhook.ScopeRead), s.listSources)
	register(s, api, op("get-source", http.MethodGet, "/{slug}", "Get a source", eventhook.ScopeRead), s.getSource)
	register(s, api, update, s.updateSource)
	register(s, api, remove, s.deleteSource)
}

type createSourceRequest struct {
	TenantPath
	Body document[SourceCreate]
}

type sourceAnswer struct {
	ETag string `header:"ETag" doc:"Version of the source, for If-Match."`
	Body Source
}

type createdSource struct {
	Location string `header:"Location"`
	ETag     string `header:"ETag" doc:"Version of the source, for If-Match."`
	Body     Source
}

func (s *server) createSource(ctx context.Context, by caller, in *createSourceRequest) (*createdSource, error) {
	body, shape := in.Body.read(s)
	source, rules := body.over(eventhook.Source{Slug: body.Slug, TenantID: by.tenant})
	if err := combinedError(shape, rules); err != nil {
		return nil, err
	}
	source, err := s.Sources.CreateSource(ctx, by.actor(), source)
	if err != nil {
		return nil, err
	}
	out, err := s.answerSource(ctx, source)
	if err != nil {
		return nil, err
	}
	return &createdSource{pathTo(in.Tenant, "sources", source.Slug), out.ETag, out.Body}, nil
}

type sourcesQuery struct {
	TenantPath
	PageQuery
}

func (s *server) listSources(ctx context.Context, by caller, in *sourcesQuery) (*page[Source], error) {
	pages := s.pager("sources", by.tenant)
	before, err := cursorOf[eventhook.Source](pages, in.Cursor)
	if err != nil {
		return nil, err
	}
	list, err := s.Sources.Sources(ctx, by.tenant, before, in.Limit+1)
	if err != nil {
		return nil, err
	}
	views, err := s.viewSources(ctx, list)
	if err != nil {
		return nil, err
	}
	out := newPage(pages, list, in.Limit, func(x eventhook.Source) Source { return views[x.ID] }, func(x eventhook.Source) eventhook.SourceID { return x.ID })
	return out, nil
}

func (s *server) getSource(ctx context.Context, by caller, in *SourcePath) (*sourceAnswer, error) {
	if !eventhook.IsSlug(in.Slug) {
		return nil, eventhook.NotFound("source")
	}
	source, err := s.Sources.Source(ctx, by.tenant, in.Slug)
	if err != nil {
		return nil, err
	}
	return s.answerSource(ctx, source)
}

type updateSourceRequest struct {
	SourcePath
	IfMatch
	Body document[SourcePatch]
}

func (s *server) updateSource(ctx context.Context, by caller, in *updateSourceRequest) (*sourceAnswer, error) {
	if !eventhook.IsSlug(in.Slug) {
		return nil, eventhook.NotFound("source")
	}
	var source eventhook.Source
	err := in.applyIfMatch(func(version int64) (err error) {
		source, err = s.Sources.UpdateSource(ctx, by.actor(), by.tenant, in.Slug, version, func(have eventhook.Source) (eventhook.Source, error) {
			return s.patchedSource(have, in.Body)
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	return s.answerSource(ctx, source)
}

// patchedSource returns the source after a patch.
func (s *server) patchedSource(have eventhook.Source, patch document[SourcePatch]) (eventhook.Source, error) {
	spec, err := specOf(have)
	if err != nil {
		return have, err
	}
	current := SourcePatch{have.Slug, sourceFieldsOf(have, spec)}
	if changesVerifierType(current.Verifier, patch.raw) {
		current.Verifier = nil
	}
	if changesConsumeType(have.Consume, patch.raw) {
		current.Consume = nil
	}
	body, shape, err := patch.mergePatched(s, current)
	if err != nil {
		return have, err
	}
	want, rules := body.over(have)
	if body.Slug != have.Slug {
		rules.Add("body.slug", "cannot be changed; create another source")
	}
	return want, combinedError(shape, rules)
}

// changesVerifierType reports whether a patch changes the type of the verifier. The
// stored fields and secrets are of no use for another type.
func changesVerifierType(have *Verifier, patch json.RawMessage) bool {
	var wanted struct{ Verifier struct{ Type *string } }
	_ = json.Unmarshal(patch, &wanted) // the shape of the patch is checked elsewhere
	return have != nil && wanted.Verifier.Type != nil && *wanted.Verifier.Type != have.Type
}

type deleteSourceRequest struct {
	SourcePath
	IfMatch
	Cascade bool `query:"cascade" doc:"Also delete the routes of the source, even if events are still to be processed."`
}

func (s *server) deleteSource(ctx context.Context, by caller, in *deleteSourceRequest) (*struct{}, error) {
	if !eventhook.IsSlug(in.Slug) {
		return nil, eventhook.NotFound("source")
	}
	return nil, in.applyIfMatch(func(version int64) error {
		return s.Sources.DeleteSource(ctx, by.actor(), by.tenant, in.Slug, version, in.Cascade)
	})
}
