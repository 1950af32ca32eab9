package replay

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/cpushare"
	"github.com/eventhook/eventhook/internal/meter"
	"github.com/eventhook/eventhook/outbound/match"
)

// handlePage queues the deliveries of the next page.
func (w *Worker) handlePage(ctx context.Context, job *Job) error {
	page, err := w.Store.ReplayPage(ctx, job, pageSize)
	if err != nil {
		return err
	}
	page.Deliveries = w.wanted(job, page.Deliveries)
	if job.Kind != eventhook.ReplayRecovery && slices.ContainsFunc(page.Deliveries, job.needsEvent) {
		if err := w.match(ctx, job, &page); err != nil {
			return err
		}
	}
	step := w.next(job)
	step.Cursor, step.IsRead = page.Cursor, page.IsLast
	if rest := job.Limit - int(job.Queued); job.Limit > 0 && len(page.Deliveries) >= rest {
		page.Deliveries, step.IsRead = page.Deliveries[:max(rest, 0)], true
	}
	step.Matched, step.Queue = len(page.Deliveries), page.Deliveries
	return w.Store.AdvanceReplay(ctx, job, step)
}

// wanted returns the deliveries that the replay may queue: those in the right state, whose
// events have a type of the replay and of the subscription as it is now.
func (w *Worker) wanted(job *Job, list []*eventhook.Delivery) []*eventhook.Delivery {
	list = slices.DeleteFunc(list, func(d *eventhook.Delivery) bool { return !w.isWanted(job, d) })
	if job.Kind == eventhook.ReplayRecovery {
		return list
	}
	list = matching(list, &job.Subscription, job.Subscription.EventTypes)
	if len(job.EventTypes) > 0 {
		list = matching(list, &job.Subscription, job.EventTypes)
	}
	return list
}

// isWanted reports whether the state of a delivery allows the replay to queue it.
func (w *Worker) isWanted(job *Job, d *eventhook.Delivery) bool {
	switch {
	case d.Status == "":
		return job.Missing && w.isMissing(job, d)
	case job.Kind == eventhook.ReplayRecovery:
		return d.Status == eventhook.DeliveryDead && d.CompletedAt != nil && !d.CompletedAt.Before(job.Since) && !job.isReleased(d)
	}
	return slices.Contains(job.Statuses, d.Status)
}

// isMissing reports whether a delivery that is not stored has never been stored. If the
// retention of deliveries may have removed it, only the age of the subscription tells.
func (w *Worker) isMissing(job *Job, d *eventhook.Delivery) bool {
	const margin = time.Hour // the clocks of instances that drop partitions may differ
	at := d.EventID.Time()
	return w.Retention == 0 || at.After(w.Now().Add(margin-w.Retention)) || at.Before(job.Subscription.CreatedAt)
}

// match removes the deliveries whose events do not pass the filter of the subscription as it
// is now. If that takes long, it shortens the page.
func (w *Worker) match(ctx context.Context, job *Job, page *Page) error {
	list := page.Deliveries
	passed, checked, err := w.filter(ctx, job, list)
	if err != nil {
		return err
	}
	if page.Deliveries = passed; checked < len(list) {
		page.Cursor, page.IsLast = job.cursorAfter(list, checked), false
	}
	return nil
}

// matching returns the deliveries to a subscription whose events have one of the types.
func matching(list []*eventhook.Delivery, to *eventhook.Subscription, patterns []string) []*eventhook.Delivery {
	matches := match.ByType(to, patterns)
	return slices.DeleteFunc(list, func(d *eventhook.Delivery) bool { return !matches(d.EventType) })
}

// filter returns the deliveries whose events pass the subscription's filter. It reads the
// events in parts that are bounded in memory. After longestPage, or if the tenant has used up
// its time for filters, it stops and has checked only the first deliveries.
func (w *Worker) filter(ctx context.Context, job *Job, list []*eventhook.Delivery) (passed []*eventhook.Delivery, checked int, err error) {
	matcher := match.CompileMatcher(0, []eventhook.Subscription{job.Subscription}, nil)
	var began time.Time
	var bounded context.Context
	for checked < len(list) {
		n, err := w.Store.ReadReplayEvents(ctx, list[checked:])
		if err != nil {
			return nil, 0, err
		}
		if bounded == nil { // the time of the first read does not count, so that the replay advances
			began = w.Now()
			var cancel func()
			bounded, cancel = context.WithTimeout(ctx, longestPage) // other tenants wait meanwhile
			defer cancel()
		}
		for _, d := range list[checked : checked+n] {
			passes, key, err := w.passes(bounded, matcher, job, d)
			isBusy := errors.Is(err, cpushare.ErrBusy) || err != nil && bounded.Err() != nil && ctx.Err() == nil
			if isBusy || checked > 0 && w.Now().Sub(began) > longestPage {
				return passed, checked, nil
			}
			if err != nil {
				return nil, 0, err
			}
			if d.Event, d.OrderKey = nil, key; passes {
				passed = append(passed, d)
			}
			checked++
		}
	}
	return passed, checked, nil
}

// needsEvent reports whether the event of a delivery decides whether the subscription receives it.
func (j *Job) needsEvent(d *eventhook.Delivery) bool {
	return match.NeedsEvent(&j.Subscription, d.EventType)
}

// passes evaluates the filter for the event of a delivery, and returns the key that orders it. An
// event whose evaluation takes too many steps does not pass, as when it was published.
func (w *Worker) passes(ctx context.Context, matcher *match.Matcher, job *Job,
	d *eventhook.Delivery) (passes bool, key eventhook.OrderKey, err error) {
	e := d.Event
	switch {
	case !job.needsEvent(d):
		return true, key, nil
	case e.Body == nil:
		return false, key, nil
	}
	err = w.CPULimiter.Evaluate(ctx, e.TenantID, cpushare.Subscriptions, func(m *meter.Meter) {
		matched, _ := matcher.Match(m, e)
		if keys := match.OrderKeys(m, e, matched); keys != nil {
			key = keys[0] // of the only subscription
		}
		passes = len(matched) > 0
	})
	if errors.Is(err, meter.ErrLimit) {
		return false, key, nil
	}
	return passes, key, err
}
