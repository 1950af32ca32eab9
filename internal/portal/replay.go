package portal

import (
	"net/http"
	"net/url"
	"time"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/web"
)

var replayPages = []page{
	{pattern: "GET /portal/endpoints/{endpoint}/replay", template: "replay", handle: (*Portal).replayPage},
	{pattern: "POST /portal/endpoints/{endpoint}/replay", template: "replay", handle: (*Portal).startReplay},
	{pattern: "POST /portal/endpoints/{endpoint}/replays/{replay}/cancel", handle: (*Portal).cancelReplay},
}

// replayForm is the data of the form of a replay.
type replayForm struct {
	Form     web.Form
	Endpoint client.Subscription
	// Estimate is how many stored deliveries the window has, at most maxEstimate; nil before the
	// customer chose a window.
	Estimate *int64
	IsMore   bool // there are more than Estimate
	IsNone   bool // nothing is to be sent
}

// deliveriesAtOnce and maxEstimate limit the deliveries that an estimate counts.
const deliveriesAtOnce, maxEstimate = 200, 1000

const replayTitle = "Replay deliveries"

// timeField is the form of a time in a datetime-local field.
const timeField = "2006-01-02T15:04"

// replayPage shows the form, with an estimate for the window in the query.
func (p *Portal) replayPage(r *request) (view, error) {
	data := replayForm{Form: web.Form{Values: r.URL.Query(), Shown: []string{"since", "until"}}, Endpoint: r.endpoint}
	if !data.Form.Values.Has("since") {
		now := p.Now().UTC()
		data.Form.Values = url.Values{"since": {now.Add(-24 * time.Hour).Format(timeField)}, "what": {"failed"}}
		return view{Title: replayTitle, Data: data}, nil
	}
	want, ok := replayOf(&data.Form)
	if !ok {
		return view{Title: replayTitle, Data: data, Status: http.StatusUnprocessableEntity}, nil
	}
	count, isMore, err := r.estimate(want)
	if data.Form.Refuse(err) {
		return view{Title: replayTitle, Data: data, Status: http.StatusUnprocessableEntity}, nil
	}
	data.Estimate, data.IsMore, data.IsNone = &count, isMore, count == 0 && want.Missing == nil
	return view{Title: replayTitle, Data: data}, err
}

// replayOf returns the replay that a form describes; ok is false if the form has faults.
func replayOf(f *web.Form) (want client.SubscriptionReplay, ok bool) {
	since, sinceOK := web.ParseTime(f.Get("since"))
	until, untilOK := web.ParseTime(f.Get("until"))
	if !sinceOK || since == nil {
		f.AddFault("since", "enter a time such as 2026-01-31T14:02")
	}
	if !untilOK {
		f.AddFault("until", "enter a time such as 2026-01-31T14:02, or nothing for now")
	}
	if len(f.Faults) > 0 {
		return want, false
	}
	want = client.SubscriptionReplay{Since: *since, Until: until, Status: []client.DeliveryStatus{client.DeliveryStatusDead}}
	switch f.Get("what") {
	case "all":
		want.Status = append(want.Status, client.DeliveryStatusSuccess)
	case "missing":
		missing := true
		want.Missing = &missing
	}
	return want, true
}

// estimate counts the stored deliveries that a replay sends again. It reads nothing but deliveries
// of the endpoint.
func (r *request) estimate(want client.SubscriptionReplay) (count int64, isMore bool, err error) {
	limit := int64(deliveriesAtOnce)
	for _, status := range want.Status {
		params := client.ListSubscriptionDeliveriesParams{Limit: &limit, Status: &status,
			CreatedAfter: &want.Since, CreatedBefore: want.Until}
		for _, err := range r.api.AllSubscriptionDeliveries(r.Context(), r.tenant(), r.endpoint.ID, params) {
			if err != nil {
				return 0, false, err
			}
			if count == maxEstimate {
				return count, true, nil
			}
			count++
		}
	}
	return count, false, nil
}

func (p *Portal) startReplay(r *request) (view, error) {
	data := replayForm{Form: web.Form{Values: r.PostForm, Shown: []string{"since", "until"}}, Endpoint: r.endpoint}
	want, ok := replayOf(&data.Form)
	if !ok {
		return view{Title: replayTitle, Data: data, Status: http.StatusUnprocessableEntity}, nil
	}
	started, err := r.api.ReplaySubscription(r.detached(), r.tenant(), r.endpoint.ID, want)
	if data.Form.Refuse(err) {
		return view{Title: replayTitle, Data: data, Status: http.StatusUnprocessableEntity}, nil
	}
	if err != nil {
		return view{}, err
	}
	return redirect(r.base(), "The replay has started: "+web.Plural(started.Estimated, "event", "events")+", oldest first (an estimate).")
}

func (p *Portal) cancelReplay(r *request) (view, error) {
	if _, err := r.api.CancelReplay(r.detached(), r.tenant(), r.endpoint.ID, r.PathValue("replay")); err != nil {
		return view{}, err
	}
	return redirect(r.base(), "The replay was cancelled. Deliveries that it has queued are still sent.")
}
