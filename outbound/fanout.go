package outbound

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/effects"
	"github.com/eventhook/eventhook/internal/meter"
	"github.com/eventhook/eventhook/internal/shares"
)

// Settler settles routed events in one transaction, those that they publish
// with their deliveries included. With ErrStaleSubscriptions it has written
// nothing: the deliveries were made for subscriptions that have changed. It
// returns the settlements whose lease was lost, of which it wrote nothing.
type Settler interface {
	SettleEvents(ctx context.Context, batch []*effects.Settlement) (lost []*effects.Settlement, err error)
}

// Fanout gives the events that routes publish their deliveries, before they are
// stored, and hands over what this instance sends itself. It stands between the
// processor of events and the store.
type Fanout struct {
	Rosters   *Rosters
	Catalogue *Catalogue     // may be nil
	Shares    *shares.Shares // of each tenant, of the time for its filters and schemas
	Room      Room
	Next      Settler
	Log       *slog.Logger
}

// What one transaction may make.
const (
	mostFanned      = 2000    // deliveries of a batch; one event may have more
	mostFannedByOne = 100_000 // deliveries of what one event publishes
)

// Match matches what an event's routes publish against the tenant's
// subscriptions, as a part of planning it: the meter counts the work, and
// SettleEvents evaluates no filter as long as the subscriptions stay the same.
// Once the meter has reached its limit, the actions that are not matched fail.
// What cannot be read now is matched when it is settled.
func (f *Fanout) Match(ctx context.Context, m *meter.Meter, s *effects.Settlement) {
	for i := range s.Actions {
		a := &s.Actions[i]
		if !isToPublish(a) {
			continue
		}
		roster, err := f.Rosters.of(ctx, s.Event.TenantID)
		if err != nil {
			return
		}
		tooSlow := f.matchAction(ctx, m, s.Event, a.Effect.Publication, roster)
		if errors.Is(m.Err(), meter.ErrLimit) {
			a.Effect, a.Permanent = effects.Effect{}, true
			a.Failure = fmt.Sprintf("route %q target %d: not done: %s", a.RouteName, a.TargetIndex+1, tooMuchMatching)
			continue
		}
		tellTooSlow(f.Log, f.Shares, s.Event, tooSlow)
	}
}

// SettleEvents settles a batch, in several transactions if those who get what
// it publishes are many. On an error some of them may have been settled.
// Repeating it makes no second delivery. Events that were not matched against
// the subscriptions of now are matched again, together within one slice of
// steps, so that one tenant's filters do not hold up the events of others in the
// batch. The events for which that is not enough are among the lost ones, and
// IsStale.
func (f *Fanout) SettleEvents(ctx context.Context, batch []*effects.Settlement) (lost []*effects.Settlement, err error) {
	for _, s := range batch {
		s.IsStale = false
	}
	m := meter.New(ctx, meter.Slice, nil)
	for len(batch) > 0 {
		part, more, err := f.settleSome(ctx, m, batch)
		if lost = append(lost, more...); err != nil {
			return nil, err
		}
		batch = batch[len(part):]
	}
	return lost, nil
}

// settleSome settles the first of a batch, as many as one transaction may.
func (f *Fanout) settleSome(ctx context.Context, budget *meter.Meter, batch []*effects.Settlement) (part, lost []*effects.Settlement, err error) {
	for range mostMatches {
		m := fanned{budget: budget}
		if part, err = f.match(ctx, &m, batch); err != nil {
			return nil, nil, err
		}
		settling, stale := split(part)
		if len(settling) == 0 {
			return part, stale, nil
		}
		m.reserve(f.Room)
		lost, err = f.Next.SettleEvents(ctx, settling)
		if err == nil {
			m.settled(f.Room, lost)
			return part, append(lost, stale...), nil
		}
		m.release(f.Room)
		if !errors.Is(err, eventhook.ErrStaleSubscriptions) {
			return nil, nil, err
		}
		for tenant, roster := range m.rosters {
			f.Rosters.renew(tenant, roster)
		}
	}
	return nil, nil, fmt.Errorf("settle events: %w", errUnsettled)
}

// split parts the stale settlements from the others.
func split(part []*effects.Settlement) (settling, stale []*effects.Settlement) {
	if !slices.ContainsFunc(part, isStale) {
		return part, nil
	}
	for _, s := range part {
		if s.IsStale {
			stale = append(stale, s)
		} else {
			settling = append(settling, s)
		}
	}
	return settling, stale
}

func isStale(s *effects.Settlement) bool { return s.IsStale }

// isToPublish reports whether an action is to publish an event.
func isToPublish(a *effects.PlannedAction) bool {
	return a.Effect.Publication != nil && a.Failure == "" && !a.IsSettled
}
