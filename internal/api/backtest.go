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

// RouteBacktest is the request of a backtest: a proposed route and the stored events
// with which it is tested.
type RouteBacktest struct {
	Source  string      `json:"source" minLength:"1" doc:"Slug of the source whose stored events are tested."`
	Route   RouteCreate `json:"route" doc:"The proposed route, in the form of a create request. is_enabled is ignored: the route is tested as if enabled."`
	Last    *int        `json:"last,omitempty" minimum:"1" maximum:"10000" doc:"Number of newest events to test; default 1000. Duplicates are not counted."`
	Since   string      `json:"since,omitempty" format:"date-time" doc:"Test only events received after this time."`
	Samples *int        `json:"samples,omitempty" minimum:"0" maximum:"20" doc:"Number of sample events to return per outcome; default 5."`
}

// Defaults of a backtest, and the number of reasons in its response.
const (
	defaultLast    = 1000
	defaultSamples = 5
	shownReasons   = 5
)

// backtestView is the outcome of a backtest.
type backtestView struct {
	Tested             int                  `json:"tested" doc:"Number of events tested: the sum of matched, unmatched and failed."`
	Matched            int                  `json:"matched" doc:"Events that match the route and for which every target would succeed."`
	Unmatched          int                  `json:"unmatched" doc:"Events that do not match the route."`
	Failed             int                  `json:"failed" doc:"Events for which a filter, the transform or a target would fail."`
	SkippedWithoutBody int                  `json:"skipped_without_body" doc:"Events not tested because their bodies are past the retention period."`
	IsComplete         bool                 `json:"is_complete" doc:"False if the time limit of 10 s was reached before all events were tested."`
	Newest             *time.Time           `json:"newest" doc:"When the newest tested event was received."`
	Oldest             *time.Time           `json:"oldest" doc:"When the oldest tested event was received."`
	UnmatchedReasons   []backtestReasonView `json:"unmatched_reasons" doc:"The five most frequent reasons, without the values of individual events."`
	FailedReasons      []backtestReasonView `json:"failed_reasons" doc:"The five most frequent reasons."`
	MatchedSamples     []backtestSampleView `json:"matched_samples" doc:"The newest matching events."`
	UnmatchedSamples   []backtestSampleView `json:"unmatched_samples" doc:"The newest events that do not match."`
	FailedSamples      []backtestSampleView `json:"failed_samples" doc:"The newest events that would fail."`
}

type backtestReasonView struct {
	Reason string `json:"reason" example:"body.amount is …, wanted $gte 1000"`
	Events int    `json:"events" doc:"Number of events with this reason."`
}

type backtestSampleView struct {
	EventID    string                  `json:"event_id" format:"uuid"`
	EventType  string                  `json:"event_type"`
	ReceivedAt time.Time               `json:"received_at"`
	Reason     string                  `json:"reason" example:"body.amount is 10, wanted $gte 1000" doc:"Why the event matches, does not match or would fail."`
	Actions    []actionExplanationView `json:"actions" doc:"One entry per target if the event matches."`
}

func (s *server) registerBacktest(api huma.API) {
	register(s, api, operation{id: "backtest-route", method: http.MethodPost, path: base + "/routes/backtest", scope: eventhook.ScopeManage, tag: "routes",
		summary: "Test a proposed route against past events",
		about: "Runs a backtest: evaluates the route for stored events of a source and counts the outcomes. Nothing is stored and no target is executed. " +
			"A tenant can run one backtest at a time, and an instance a few; a request that cannot start within 5 s gets 503 with Retry-After.", class: ownLimits, maxBody: configBody, skipsShape: true}, s.backtest)
}

type backtestRequest struct {
	TenantPath
	Body document[RouteBacktest]
}

type backtestAnswer struct{ Body backtestView }

func (s *server) backtest(ctx context.Context, by caller, in *backtestRequest) (*backtestAnswer, error) {
	body, shape := in.Body.read(s)
	proposed, err := s.proposedRoute(ctx, by, in.Tenant, body, shape)
	if err != nil {
		return nil, err
	}
	found, err := s.Routes.Backtest(ctx, proposed, moment(body.Since), valueOr(body.Last, defaultLast), valueOr(body.Samples, defaultSamples))
	if err != nil {
		return nil, err
	}
	return &backtestAnswer{viewBacktest(found)}, nil
}

// proposedRoute returns the route of a backtest after the same checks as for a new
// route. The locations of faults are those in the request of the backtest.
func (s *server) proposedRoute(ctx context.Context, by caller, tenant string, body RouteBacktest, shape eventhook.Faults) (eventhook.Route, error) {
	parsed, wrong := targetsForTest(body.Route.Targets)
	want, err := s.checkParsedRoute(ctx, by.tenant, nil, body.Route.over(eventhook.Route{TenantID: by.tenant}, body.Route.Name), parsed, wrong)
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
	return want, combinedError(shape, rules)
}

// sourceOf returns the source with a slug. A text that is not a valid slug is
// KindNotFound without a query.
func (s *server) sourceOf(ctx context.Context, tenant, slug string) (eventhook.Source, error) {
	if !eventhook.IsSlug(slug) {
		return eventhook.Source{}, eventhook.NotFound("source")
	}
	return s.Explain.FindSource(ctx, tenant, slug)
}

// faultsOf returns the faults of a KindInvalid error, and every other error unchanged.
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
	for _, r := range o.TopReasons(shownReasons) {
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

// optionalMoment returns nil for the zero time.
func optionalMoment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return optionalUTC(&t)
}
