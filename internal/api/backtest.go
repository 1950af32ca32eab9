package api

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/route"
)

// RouteBacktest says which route is to be held against which events.
type RouteBacktest struct {
	Source  string      `json:"source" minLength:"1" doc:"The slug of the source whose events it is about."`
	Route   RouteCreate `json:"route" doc:"As it would be made. It is tried as if it were enabled."`
	Last    *int        `json:"last,omitempty" minimum:"1" maximum:"10000" doc:"How many of the newest events; 1000 by default. Duplicates are none of them."`
	Since   string      `json:"since,omitempty" format:"date-time" doc:"Only those that were received after it."`
	Samples *int        `json:"samples,omitempty" minimum:"0" maximum:"20" doc:"How many events of each outcome are shown; 5 by default."`
}

// What a backtest does if it is not told.
const (
	defaultLast    = 1000
	defaultSamples = 5
	shownReasons   = 5
)

// backtestView is what the route would have made of the events.
type backtestView struct {
	Tested             int                  `json:"tested" doc:"They have matched, not matched, or failed."`
	Matched            int                  `json:"matched" doc:"The route would have taken them, and each target done its part."`
	Unmatched          int                  `json:"unmatched"`
	Failed             int                  `json:"failed" doc:"The route would have taken them, or it cannot be told, and an action would have failed."`
	SkippedWithoutBody int                  `json:"skipped_without_body" doc:"Not tested, since their bodies are past their retention."`
	IsComplete         bool                 `json:"is_complete" doc:"Else time ran out, 10 s, before all events were tested."`
	Newest             *time.Time           `json:"newest" doc:"When the newest event that was tested was received."`
	Oldest             *time.Time           `json:"oldest"`
	UnmatchedReasons   []backtestReasonView `json:"unmatched_reasons" doc:"The five most frequent, without what each event holds."`
	FailedReasons      []backtestReasonView `json:"failed_reasons" doc:"The five most frequent."`
	MatchedSamples     []backtestSampleView `json:"matched_samples" doc:"The newest of them."`
	UnmatchedSamples   []backtestSampleView `json:"unmatched_samples"`
	FailedSamples      []backtestSampleView `json:"failed_samples"`
}

type backtestReasonView struct {
	Reason string `json:"reason" example:"body.amount is …, wanted $gte 1000"`
	Events int    `json:"events"`
}

type backtestSampleView struct {
	EventID    string                  `json:"event_id" format:"uuid"`
	EventType  string                  `json:"event_type"`
	ReceivedAt time.Time               `json:"received_at"`
	Reason     string                  `json:"reason" example:"body.amount is 10, wanted $gte 1000"`
	Actions    []actionExplanationView `json:"actions"`
}

func (s *server) registerBacktest(api huma.API) {
	register(s, api, operation{id: "backtest-route", method: http.MethodPost, path: base + "/routes/backtest", scope: eventhook.ScopeManage, tag: "routes",
		summary: "Tell what a proposed route would have made of past events",
		about: "Nothing is stored, and nothing is done. A tenant has one backtest at a time, and a few run at once; " +
			"one that has waited for 5 s is a 503 with Retry-After.", class: ownTurns, maxBody: configBody, skipsShape: true}, s.backtest)
}

type backtestRequest struct {
	TenantPath
	Body document[RouteBacktest]
}

type backtestAnswer struct{ Body backtestView }

func (s *server) backtest(ctx context.Context, who caller, in *backtestRequest) (*backtestAnswer, error) {
	body, shape := in.Body.read(s)
	proposed, err := s.proposedRoute(ctx, who, in.Tenant, body, shape)
	if err != nil {
		return nil, err
	}
	found, err := s.Routes.Backtest(ctx, proposed, moment(body.Since), valueOr(body.Last, defaultLast), valueOr(body.Samples, defaultSamples))
	if err != nil {
		return nil, err
	}
	return &backtestAnswer{viewBacktest(found)}, nil
}

// proposedRoute is a route that is as good as one which is about to be made:
// what is wrong with it is told as then, and where it is in this body.
func (s *server) proposedRoute(ctx context.Context, who caller, tenant string, body RouteBacktest, shape eventhook.Faults) (eventhook.Route, error) {
	tried, wrong := triedTargets(body.Route.Targets)
	want, err := s.checkRead(ctx, who.tenant, nil, body.Route.over(eventhook.Route{TenantID: who.tenant}, body.Route.Name), tried, wrong)
	rules, err := faultsOf(err)
	if err != nil {
		return want, err
	}
	for i, f := range rules {
		rules[i].Location = "body.route" + strings.TrimPrefix(f.Location, "body")
	}
	source, err := s.sourceOf(ctx, tenant, body.Source)
	if eventhook.KindOf(err) == eventhook.KindNotFound {
		rules.Add("body.source", "the tenant has no such source")
	} else if err != nil {
		return want, err
	}
	want.SourceID = source.ID
	return want, together(shape, rules)
}

// sourceOf finds a source by its slug, which need be none.
func (s *server) sourceOf(ctx context.Context, tenant, slug string) (eventhook.Source, error) {
	if !eventhook.IsSlug(slug) {
		return eventhook.Source{}, eventhook.NotFound("source")
	}
	return s.Explain.FindSource(ctx, tenant, slug)
}

// faultsOf are what an input is refused for; any other error stays one.
func faultsOf(err error) (eventhook.Faults, error) {
	if e, ok := errors.AsType[*eventhook.Error](err); ok && e.Kind == eventhook.KindInvalid {
		return e.Faults, nil
	}
	return nil, err
}

func valueOr(v *int, otherwise int) int {
	if v == nil {
		return otherwise
	}
	return *v
}

func viewBacktest(b *route.Backtest) backtestView {
	return backtestView{
		Tested:  b.Matched.Events + b.Unmatched.Events + b.Failed.Events,
		Matched: b.Matched.Events, Unmatched: b.Unmatched.Events, Failed: b.Failed.Events, SkippedWithoutBody: b.WithoutBody,
		IsComplete: b.IsComplete, Newest: optionalMoment(b.Newest), Oldest: optionalMoment(b.Oldest),
		UnmatchedReasons: viewReasons(b.Unmatched), FailedReasons: viewReasons(b.Failed),
		MatchedSamples: viewSamples(b.Matched), UnmatchedSamples: viewSamples(b.Unmatched), FailedSamples: viewSamples(b.Failed),
	}
}

func viewReasons(o route.Outcome) []backtestReasonView {
	views := []backtestReasonView{}
	for _, r := range o.Frequent(shownReasons) {
		views = append(views, backtestReasonView(r))
	}
	return views
}

func viewSamples(o route.Outcome) []backtestSampleView {
	views := []backtestSampleView{}
	for _, x := range o.Samples {
		v := backtestSampleView{EventID: x.EventID.String(), EventType: x.EventType, ReceivedAt: utc(x.EventID.Time()), Reason: x.Reason, Actions: []actionExplanationView{}}
		for _, a := range x.Actions {
			v.Actions = append(v.Actions, viewSampled(a))
		}
		views = append(views, v)
	}
	return views
}

func viewSampled(a route.ExplainedTarget) actionExplanationView {
	v := actionExplanationView{TargetType: a.Type, Input: a.Input, LeftOut: a.IsLeftOut}
	if a.Err != nil {
		v.Error = a.Err.Error()
	}
	return v
}

// optionalMoment is null for the zero time.
func optionalMoment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return optionalUTC(&t)
}
