package outbound

import (
	"context"
	"errors"
	"fmt"

	"github.com/eventhook/eventhook"
)

// Settler settles routed events in one transaction, those that they publish
// with their deliveries included. With ErrStaleSubscriptions it has written
// nothing: the deliveries were made for subscriptions that have changed. It
// returns the settlements whose lease was lost, of which it wrote nothing.
type Settler interface {
	SettleEvents(ctx context.Context, batch []*eventhook.Settlement) (lost []*eventhook.Settlement, err error)
}

// Fanout gives the events that routes publish their deliveries, before they are
// stored, and hands over what this instance sends itself. It stands between the
// processor of events and the store.
type Fanout struct {
	Rosters   *Rosters
	Catalogue *Catalogue // may be nil
	Room      Room
	Next      Settler
}

// What one transaction may make.
const (
	mostFanned      = 2000    // deliveries of a batch; one event may have more
	mostFannedByOne = 100_000 // deliveries of what one event publishes
)

// SettleEvents settles a batch, in several transactions if those who get what
// it publishes are many. On an error some of them may have been settled.
// Repeating it makes no second delivery.
func (f *Fanout) SettleEvents(ctx context.Context, batch []*eventhook.Settlement) (lost []*eventhook.Settlement, err error) {
	for len(batch) > 0 {
		part, more, err := f.settleSome(ctx, batch)
		if lost = append(lost, more...); err != nil {
			return nil, err
		}
		batch = batch[len(part):]
	}
	return lost, nil
}

// settleSome settles the first of a batch, as many as one transaction may.
func (f *Fanout) settleSome(ctx context.Context, batch []*eventhook.Settlement) (part, lost []*eventhook.Settlement, err error) {
	for range mostMatches {
		var m fanned
		if part, err = f.match(ctx, &m, batch); err != nil {
			return nil, nil, err
		}
		m.reserve(f.Room)
		lost, err = f.Next.SettleEvents(ctx, part)
		if err == nil {
			m.settled(f.Room, lost)
			return part, lost, nil
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
