package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/verify"
)

// HandshakeStore keeps the secrets that providers' handshakes have brought.
type HandshakeStore interface {
	FindSource(ctx context.Context, tenant, source string) (eventhook.Source, error)
	// LearnedSecret fails with KindNotFound where none was learned.
	LearnedSecret(ctx context.Context, source eventhook.SourceID) (learnedAt time.Time, revealedAt *time.Time, err error)
	// RevealSecret works once; then it is a KindConflict.
	RevealSecret(ctx context.Context, by eventhook.Actor, s eventhook.Source) (eventhook.Secret, error)
	ResetHandshake(ctx context.Context, by eventhook.Actor, s eventhook.Source) error
}

// SourcePath is the part of a path that names a source.
type SourcePath struct {
	TenantPath
	Slug string `path:"slug" doc:"The source's slug."`
}

type handshakeView struct {
	Handshake  *string    `json:"handshake" doc:"The name of the provider's handshake; null: it has none."`
	Status     string     `json:"status" enum:"none,stateless,waiting,closed,learned" doc:"stateless: it is answered whenever it comes; waiting: it will bring the secret; closed: it has not brought it in time, reset it; learned: it has. Notion's secret counts once revealed_at is there."`
	WaitsUntil *time.Time `json:"waits_until" doc:"Until when the secret is taken; null: it may come at any time, or has come."`
	LearnedAt  *time.Time `json:"learned_at"`
	RevealedAt *time.Time `json:"revealed_at" doc:"When the learned secret was shown."`
}

func (s *server) registerHandshake(api huma.API) {
	const tag, path = "sources", base + "/sources/{slug}/handshake"
	register(s, api, operation{id: "get-handshake", method: http.MethodGet, path: path, scope: eventhook.ScopeRead, tag: tag,
		summary: "See how far a source's handshake is"}, s.readHandshake)
	register(s, api, operation{id: "reveal-handshake-secret", method: http.MethodPost, path: path + "/reveal", scope: eventhook.ScopeManage, tag: tag,
		summary: "Reveal the secret that the handshake has brought, once", about: "To confirm it at the provider. A secret that must be confirmed, such as Notion's, counts from now on."}, s.revealSecret)
	register(s, api, operation{id: "reset-handshake", method: http.MethodPost, path: path + "/reset", scope: eventhook.ScopeManage, status: http.StatusNoContent, tag: tag,
		summary: "Reset a handshake: forget the secret that it has brought, and wait for the next", about: "Asana's is taken within an hour."}, s.resetHandshake)
}

// findSource finds the source that a path names, and what its configuration
// comes to, without what a handshake has brought.
func (s *server) findSource(ctx context.Context, in *SourcePath) (eventhook.Source, verify.Resolved, error) {
	if !eventhook.IsSlug(in.Slug) {
		return eventhook.Source{}, verify.Resolved{}, eventhook.NotFound("source")
	}
	source, err := s.Handshakes.FindSource(ctx, in.Tenant, in.Slug)
	if err != nil {
		return source, verify.Resolved{}, err
	}
	var spec verify.Spec
	if err := json.Unmarshal([]byte(source.Verifier.Reveal()), &spec); err != nil {
		return source, verify.Resolved{}, errors.New("the source's verifier cannot be read") // the cause may quote a secret
	}
	resolved, _ := spec.Resolve() // what is wrong with it, its requests tell
	return source, resolved, nil
}

// findLearner finds a source whose secret comes by its handshake.
func (s *server) findLearner(ctx context.Context, in *SourcePath) (eventhook.Source, error) {
	source, resolved, err := s.findSource(ctx, in)
	if err == nil && !resolved.Waiting {
		err = &eventhook.Error{Kind: eventhook.KindConflict, Message: "The secret of this source does not come by a handshake."}
	}
	return source, err
}

type handshakeAnswer struct{ Body handshakeView }

func (s *server) readHandshake(ctx context.Context, _ caller, in *SourcePath) (*handshakeAnswer, error) {
	source, resolved, err := s.findSource(ctx, in)
	if err != nil {
		return nil, err
	}
	v := handshakeView{Handshake: optional(resolved.Preset.Handshake), Status: "none"}
	if v.Handshake != nil {
		v.Status = "stateless"
	}
	if !resolved.Waiting {
		return &handshakeAnswer{v}, nil
	}
	learnedAt, revealedAt, err := s.Handshakes.LearnedSecret(ctx, source.ID)
	switch {
	case err == nil:
		v.Status, v.LearnedAt, v.RevealedAt = "learned", optionalUTC(&learnedAt), optionalUTC(revealedAt)
	case eventhook.KindOf(err) == eventhook.KindNotFound:
		v.Status = "waiting"
		if until := source.HandshakeOpenedAt.Add(eventhook.HandshakeWindow); !resolved.Preset.ConfirmsSecret {
			v.WaitsUntil = optionalUTC(&until)
			if s.Now().After(until) {
				v.Status = "closed"
			}
		}
	default:
		return nil, err
	}
	return &handshakeAnswer{v}, nil
}

type secretAnswer struct {
	Body struct {
		Secret string `json:"secret"`
	}
}

func (s *server) revealSecret(ctx context.Context, who caller, in *SourcePath) (*secretAnswer, error) {
	source, err := s.findLearner(ctx, in)
	if err != nil {
		return nil, err
	}
	secret, err := s.Handshakes.RevealSecret(ctx, who.actor(), source)
	if err != nil {
		return nil, err
	}
	out := &secretAnswer{}
	out.Body.Secret = secret.Reveal()
	return out, nil
}

func (s *server) resetHandshake(ctx context.Context, who caller, in *SourcePath) (*struct{}, error) {
	source, err := s.findLearner(ctx, in)
	if err != nil {
		return nil, err
	}
	return nil, s.Handshakes.ResetHandshake(ctx, who.actor(), source)
}
