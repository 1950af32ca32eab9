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

// HandshakeStore stores the secrets received by handshakes of providers.
type HandshakeStore interface {
	FindSource(ctx context.Context, tenant, source string) (eventhook.Source, error)
	// LearnedSecret returns KindNotFound if no secret was received.
	LearnedSecret(ctx context.Context, source eventhook.SourceID) (learnedAt time.Time, revealedAt *time.Time, err error)
	// RevealSecret works once; after that it returns KindConflict.
	RevealSecret(ctx context.Context, by eventhook.Actor, s eventhook.Source) (eventhook.Secret, error)
	ResetHandshake(ctx context.Context, by eventhook.Actor, s eventhook.Source) error
}

// SourcePath is the part of a path that identifies a source.
type SourcePath struct {
	TenantPath
	Slug string `path:"slug" doc:"Slug of the source."`
}

type handshakeView struct {
	Handshake  *string    `json:"handshake" doc:"Name of the provider's handshake; null if the provider has none."`
	Status     string     `json:"status" enum:"none,stateless,waiting,closed,learned" doc:"none: the provider has no handshake. stateless: every handshake request is answered. waiting: the handshake that delivers the secret has not arrived yet. closed: the secret did not arrive in time; reset the handshake to try again. learned: the secret was received. A secret that needs confirmation, such as Notion's, is used only after it was revealed."`
	WaitsUntil *time.Time `json:"waits_until" doc:"Deadline for receiving the secret; null if there is no deadline or the secret was received."`
	LearnedAt  *time.Time `json:"learned_at" doc:"When the secret was received; null before that."`
	RevealedAt *time.Time `json:"revealed_at" doc:"When the secret was revealed."`
}

func (s *server) registerHandshake(api huma.API) {
	const tag, path = "sources", base + "/sources/{slug}/handshake"
	register(s, api, operation{id: "get-handshake", method: http.MethodGet, path: path, scope: eventhook.ScopeRead, tag: tag,
		summary: "Get the handshake status of a source"}, s.getHandshake)
	register(s, api, operation{id: "reveal-handshake-secret", method: http.MethodPost, path: path + "/reveal", scope: eventhook.ScopeManage, tag: tag,
		summary: "Reveal the secret received by a handshake",
		about:   "Returns the secret, which must be confirmed at the provider. It can be revealed only once. A secret that needs confirmation, such as Notion's, is used from now on."}, s.revealSecret)
	register(s, api, operation{id: "reset-handshake", method: http.MethodPost, path: path + "/reset", scope: eventhook.ScopeManage, status: http.StatusNoContent, tag: tag,
		summary: "Reset a handshake", about: "Deletes the secret received by the handshake. The source then waits for the next handshake. A secret that needs no confirmation, such as Asana's, is accepted for one hour."}, s.resetHandshake)
}

// findSource returns the source of a path and its resolved verifier, without a secret
// received by a handshake.
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
	resolved, _ := spec.Resolve() // faults are reported when a request is verified
	return source, resolved, nil
}

// findLearningSource returns a source whose secret is received by a handshake, and
// KindConflict for any other source.
func (s *server) findLearningSource(ctx context.Context, in *SourcePath) (eventhook.Source, error) {
	source, resolved, err := s.findSource(ctx, in)
	if err == nil && !resolved.Waiting {
		err = &eventhook.Error{Kind: eventhook.KindConflict, Message: "This source does not receive its secret by a handshake."}
	}
	return source, err
}

type handshakeAnswer struct{ Body handshakeView }

func (s *server) getHandshake(ctx context.Context, _ caller, in *SourcePath) (*handshakeAnswer, error) {
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
		Secret string `json:"secret" doc:"Secret received by the handshake."`
	}
}

func (s *server) revealSecret(ctx context.Context, by caller, in *SourcePath) (*secretAnswer, error) {
	source, err := s.findLearningSource(ctx, in)
	if err != nil {
		return nil, err
	}
	secret, err := s.Handshakes.RevealSecret(ctx, by.actor(), source)
	if err != nil {
		return nil, err
	}
	out := &secretAnswer{}
	out.Body.Secret = secret.Reveal()
	return out, nil
}

func (s *server) resetHandshake(ctx context.Context, by caller, in *SourcePath) (*struct{}, error) {
	source, err := s.findLearningSource(ctx, in)
	if err != nil {
		return nil, err
	}
	return nil, s.Handshakes.ResetHandshake(ctx, by.actor(), source)
}
