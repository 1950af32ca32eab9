package pg

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/effects"
)

// settling settles promises in a transaction and gathers the answers.
type settling struct {
	tx      pgx.Tx
	now     time.Time
	results promiseResults        // none for an outcome whose promise does not exist
	settled []eventhook.PromiseID // which somebody may await
}

// settle settles the promises that are pending, holds outcomes of those that do
// not exist, and returns the outcomes of those that were made while it looked:
// they are settled next, not missed.
func (s *settling) settle(ctx context.Context, outcomes []keyedOutcome) (left []keyedOutcome, err error) {
	first := firstPerKey(outcomes, false)
	found, err := s.query(ctx, settlePromisesSQL, append(outcomeColumns(first), s.now)...)
	if err != nil {
		return nil, fmt.Errorf("settle promises: %w", err)
	}
	for _, p := range found {
		s.settled = append(s.settled, p.id)
	}
	outcomes = s.answer(outcomes, found, first)
	if holding := firstPerKey(outcomes, true); len(holding) > 0 {
		ids := newIDsInOrder[eventhook.Promise](s.now, len(holding))
		if found, err = s.query(ctx, holdOutcomesSQL, append(outcomeColumns(holding), s.now, uuids(ids))...); err != nil {
			return nil, fmt.Errorf("hold outcomes: %w", err)
		}
		outcomes = s.answer(outcomes, found, holding)
	}
	if len(outcomes) == 0 {
		return nil, nil
	}
	if found, err = s.query(ctx, findPromisesSQL, outcomeColumns(firstPerKey(outcomes, false))[:2]...); err != nil {
		return nil, fmt.Errorf("find promises: %w", err)
	}
	pending := map[promiseKey]bool{}
	for _, p := range found {
		pending[p.promiseKey] = p.status == eventhook.PromisePending
	}
	for _, o := range s.answer(outcomes, found, nil) { // what is not found does not exist
		pending[o.key()] = false
	}
	for _, o := range outcomes {
		if pending[o.key()] {
			left = append(left, o)
		}
	}
	return left, nil
}

// answer notes what is known of the promises that were found, and returns the
// outcomes of the others. An outcome before the winner of its key came when
// there was no promise yet.
func (s *settling) answer(outcomes []keyedOutcome, found []foundPromise, winners []keyedOutcome) (left []keyedOutcome) {
	ids := make(map[promiseKey]eventhook.PromiseID, len(found))
	for _, p := range found {
		ids[p.promiseKey] = p.id
	}
	winner := make(map[promiseKey]*effects.PromiseOutcome, len(winners))
	for _, o := range winners {
		winner[o.key()] = o.outcome
	}
	for _, o := range outcomes {
		id, ok := ids[o.key()]
		switch {
		case !ok:
			left = append(left, o)
		case winner[o.key()] == o.outcome:
			s.results[o.outcome] = promiseResult{id: id, exists: true, won: true}
			delete(winner, o.key())
		case winner[o.key()] == nil:
			s.results[o.outcome] = promiseResult{id: id, exists: true}
		}
	}
	return left
}

// firstPerKey is the first outcome of each key, or the first that may be held.
func firstPerKey(outcomes []keyedOutcome, mayBeHeld bool) (first []keyedOutcome) {
	seen := map[promiseKey]bool{}
	for _, o := range outcomes {
		if k := o.key(); !seen[k] && (o.outcome.Hold || !mayBeHeld) {
			seen[k] = true
			first = append(first, o)
		}
	}
	return first
}

// outcomeColumns are the parameters of statements that have outcomes: $1 to $5.
func outcomeColumns(outcomes []keyedOutcome) []any {
	n := len(outcomes)
	tenants, keys, states := make([][16]byte, n), make([]string, n), make([]string, n)
	values, errs := make([]*string, n), make([]*string, n)
	for i, o := range outcomes {
		tenants[i], keys[i], states[i] = o.tenant, o.outcome.Key, string(o.outcome.Status)
		values[i], errs[i] = jsonElement(o.outcome.Value), textElement(o.outcome.Error)
	}
	return []any{tenants, keys, states, values, errs}
}

type foundPromise struct {
	promiseKey
	id     eventhook.PromiseID
	status eventhook.PromiseStatus
}

func (s *settling) query(ctx context.Context, sql string, args ...any) ([]foundPromise, error) {
	rows, err := s.tx.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(r pgx.CollectableRow) (p foundPromise, err error) {
		err = r.Scan((*[16]byte)(&p.tenant), &p.key, (*[16]byte)(&p.id), (*string)(&p.status))
		return p, err
	})
}
