package api

import (
	"context"
	"encoding/hex"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eventhook/eventhook"
)

// RejectionStore reads the requests that a source refused, newest first, and the number
// of refusals by reason. A source that does not exist is KindNotFound.
type RejectionStore interface {
	Rejections(ctx context.Context, tenant eventhook.TenantID, source string, before eventhook.RejectionID, limit int) ([]eventhook.Rejection, []eventhook.RejectionCount, error)
}

func (s *server) registerRejections(api huma.API) {
	const tag = "sources"
	register(s, api, operation{id: "list-rejections", method: http.MethodGet, path: base + "/sources/{slug}/rejections", scope: eventhook.ScopeRead, tag: tag,
		summary: "List requests that a source refused", about: "Lists the most recent refused requests, newest first, and counts all refusals by reason."}, s.listRejections)
}

type rejectionView struct {
	ID            string    `json:"id" format:"uuid"`
	RejectedAt    time.Time `json:"rejected_at"`
	Outcome       string    `json:"outcome" doc:"Outcome of the request." example:"unverified"`
	Reason        string    `json:"reason" doc:"Reason in one word: the verifier's reason, else the outcome." example:"mismatch"`
	Detail        *string   `json:"detail" doc:"Details from the verifier."`
	Method        string    `json:"method" doc:"HTTP method of the request."`
	ClientAddress *string   `json:"client_address" doc:"Client address of the request; null if unknown."`
	HeaderNames   []string  `json:"header_names" doc:"Names of the request's headers, at most 64, without values."`
	BodySize      *int64    `json:"body_size" doc:"Size of the body in bytes: as read, else as announced by Content-Length; null if unknown."`
	BodySHA256    *string   `json:"body_sha256" doc:"SHA-256 of the body in hex; null if the body was not read completely."`
}

type rejectionCountView struct {
	Reason  string    `json:"reason" doc:"Reason in one word, as in items."`
	Count   int64     `json:"count" doc:"Number of refused requests since the source was created, including requests that are no longer listed."`
	FirstAt time.Time `json:"first_at" doc:"Time of the first refusal."`
	LastAt  time.Time `json:"last_at" doc:"Time of the last refusal."`
}

type rejectionsQuery struct {
	SourcePath
	PageQuery
}

type rejectionsAnswer struct {
	Body struct {
		Items      []rejectionView      `json:"items"`
		NextCursor *string              `json:"next_cursor" doc:"Cursor of the next page; null on the last page."`
		Counts     []rejectionCountView `json:"counts" doc:"Number of refusals per reason, most frequent first. Identical on every page."`
	}
}

func (s *server) listRejections(ctx context.Context, by caller, in *rejectionsQuery) (*rejectionsAnswer, error) {
	pages := s.pager("rejections of "+in.Slug, by.tenant)
	before, err := cursorOf[eventhook.Rejection](pages, in.Cursor)
	if err != nil {
		return nil, err
	}
	if !eventhook.IsSlug(in.Slug) {
		return nil, eventhook.NotFound("source")
	}
	list, counts, err := s.Rejections.Rejections(ctx, by.tenant, in.Slug, before, in.Limit+1)
	if err != nil {
		return nil, err
	}
	p := newPage(pages, list, in.Limit, viewRejection, func(r eventhook.Rejection) eventhook.RejectionID { return r.ID })
	out := &rejectionsAnswer{}
	out.Body.Items, out.Body.NextCursor, out.Body.Counts = p.Body.Items, p.Body.NextCursor, []rejectionCountView{}
	for _, c := range counts {
		out.Body.Counts = append(out.Body.Counts, rejectionCountView{Reason: c.Reason, Count: c.Count, FirstAt: utc(c.FirstAt), LastAt: utc(c.LastAt)})
	}
	return out, nil
}

func viewRejection(r eventhook.Rejection) rejectionView {
	v := rejectionView{
		ID: r.ID.String(), RejectedAt: r.RejectedAt(), Outcome: r.Outcome, Reason: r.Reason, Detail: optional(r.Detail), Method: r.Method,
		ClientAddress: optional(r.ClientAddress), HeaderNames: r.HeaderNames, BodySHA256: optional(hex.EncodeToString(r.BodySHA256)),
	}
	if r.BodySize != eventhook.UnknownBodySize {
		v.BodySize = &r.BodySize
	}
	return v
}
