package console

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/web"
)

// replayPage is the data of the page of a subscription's replays.
type replayPage struct {
	client.Subscription
	Form    form
	Replays []client.Replay
	// Estimate is the number of events that the replay would send; nil before it is known.
	Estimate   *int64
	HasChanged bool
	// Takes is the estimated duration; 0 if it is not known.
	Takes        time.Duration
	Since, Until time.Time
}

// maxEstimate is the number at which the API stops to count the events of a replay.
const maxEstimate = 10000

var replayFields = []string{"since", "until", "status", "event_types", "missing", "limit"}

// replayForm shows the form of a replay and the replays.
func (c *Console) replayForm(r *request) (view, error) {
	values := r.URL.Query()
	if !values.Has("since") {
		values.Set("since", c.Now().UTC().Add(-24*time.Hour).Format(formTime))
	}
	if !values.Has("status") {
		values.Set("status", "dead")
	}
	return r.replayView(replayPage{Form: r.formOf(values, replayFields...)})
}

func (r *request) replayView(p replayPage) (view, error) {
	s, err := r.api.GetSubscription(r.Context(), r.tenant, r.PathValue("id"))
	if err != nil {
		return view{}, err
	}
	const limit = 20
	p.Subscription, p.Replays = s, r.replaysOf(s.ID, limit)
	if p.Estimate != nil {
		p.Takes = r.replayTakes(s, *p.Estimate)
	}
	return view{Title: "Replay to " + s.Name, Data: p}, nil
}

// replayTakes estimates how long a subscription needs for n deliveries, from its limits and the mean
// duration of its attempts; 0 if there were no attempts.
func (r *request) replayTakes(s client.Subscription, n int64) time.Duration {
	var perSecond float64
	if stats, err := r.api.GetSubscriptionStats(r.Context(), r.tenant, s.ID); err == nil && stats.MeanDurationMs > 0 {
		perSecond = float64(s.MaxInFlight) * float64(time.Second/time.Millisecond) / stats.MeanDurationMs
	}
	if limit := float64(s.RatePerSecond); limit > 0 && (perSecond == 0 || limit < perSecond) {
		perSecond = limit
	}
	if perSecond == 0 {
		return 0
	}
	return time.Duration(float64(n) / perSecond * float64(time.Second)).Round(time.Second)
}

// startReplay starts the replay that the form describes. It asks first, with an estimate.
func (c *Console) startReplay(r *request) (view, error) {
	if err := r.ParseForm(); err != nil {
		return view{}, err
	}
	f := r.formOf(nil, replayFields...)
	since, ok := parseTime(f.Get("since"))
	if !ok || since == nil {
		f.Faults["since"] = "must be a time such as 2026-01-31T14:02:00Z"
	}
	until, ok := parseTime(f.Get("until"))
	if !ok {
		f.Faults["until"] = "must be a time such as 2026-01-31T14:02:00Z"
	}
	limit, err := strconv.ParseInt(f.Get("limit"), 10, 64)
	if f.Get("limit") != "" && err != nil {
		f.Faults["limit"] = "must be a number"
	}
	if len(f.Faults) > 0 {
		return r.refusedReplay(f)
	}
	if until == nil { // the window that the person confirms must stay the same
		now := c.Now().UTC().Truncate(time.Millisecond)
		until = &now
		f.Values.Set("until", now.Format(formTime+".999"))
	}
	n, isConfirmed := r.expected()
	body := client.SubscriptionReplay{Since: *since, Until: until, EventTypes: nonEmptyLines(f.Get("event_types")), ExpectedCount: &n}
	for _, status := range f.Values["status"] {
		body.Status = append(body.Status, client.DeliveryStatus(status))
	}
	if f.Has("missing", "true") {
		body.Missing = new(true)
	}
	if limit > 0 {
		body.Limit = &limit
	}
	id := r.PathValue("id")
	started, err := r.api.ReplaySubscription(r.detached(), r.tenant, id, body)
	if count, ok := matchesOf(err); ok {
		return r.replayView(replayPage{Form: f, Estimate: &count, HasChanged: isConfirmed, Since: *since, Until: *until})
	}
	if err != nil && f.refuse(err) {
		return r.refusedReplay(f)
	}
	if err != nil {
		return view{}, err
	}
	to := r.base() + "/subscriptions/" + url.PathEscape(id) + "/replay"
	if !isConfirmed { // the API does not refuse to replay nothing
		return r.endEmptyReplay(id, started.ReplayID, to)
	}
	return redirect(to, fmt.Sprintf("The replay of about %s has started.", web.Plural(started.Estimated, "event", "events")))
}

// endEmptyReplay cancels a replay that has nothing to send.
func (r *request) endEmptyReplay(id, replay, to string) (view, error) {
	_, err := r.api.CancelReplay(r.detached(), r.tenant, id, replay)
	if p, ok := errors.AsType[*client.Problem](err); err != nil && (!ok || p.Status != http.StatusConflict) {
		return view{}, err
	}
	return redirect(to, "No event of this time matches. Nothing was sent.")
}

func (r *request) refusedReplay(f form) (view, error) {
	v, err := r.replayView(replayPage{Form: f})
	v.Status = http.StatusUnprocessableEntity
	return v, err
}

func (c *Console) cancelReplay(r *request) (view, error) {
	id := r.PathValue("id")
	if _, err := r.api.CancelReplay(r.detached(), r.tenant, id, r.PathValue("replay")); err != nil {
		return view{}, err
	}
	return redirect(r.base()+"/subscriptions/"+url.PathEscape(id)+"/replay", "The replay is cancelled. Deliveries that it has queued are still sent.")
}

// IsCapped reports whether the estimate is a lower bound.
func (p replayPage) IsCapped() bool { return p.Estimate != nil && *p.Estimate >= maxEstimate }

// IsRunning reports whether one of the replays has not ended.
func (p replayPage) IsRunning() bool {
	return slices.ContainsFunc(p.Replays, func(x client.Replay) bool { return x.Status == "running" })
}

// nonEmptyLines returns the lines of a text that are not empty; nil if there are none.
func nonEmptyLines(text string) (list []string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			list = append(list, line)
		}
	}
	return list
}
