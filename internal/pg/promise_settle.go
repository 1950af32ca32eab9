package pg

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/effects"
)

// promiseSettler settles promises in a transaction and collects the results.
type promiseSettler struct {
	tx      pgx.Tx
	now     time.Time
	results promiseResults        // without outcomes whose promises do not exist
	settled []eventhook.PromiseID // promises that workflows may await
}

// settleOrHold settles pending promises and holds outcomes whose promises do not exist. It
// returns the outcomes whose promises another transaction created after settlePromisesSQL.
// The caller passes these to settleOrHold again.
func (s *promiseSettler) settleOrHold(ctx context.Context, outcomes []keyedOutcome) (left []keyedOutcome, err error) {
	first := firstPerKey(outcomes, false)
	found, err := s.query(ctx, settlePromisesSQL, outcomeColumns(first), pgx.NamedArgs{"now": s.now})
	if err != nil {
		return nil, fmt.Errorf("settle promises: %w", err)
	}
	for _, p := range found {
		s.settled = append(s.settled, p.id)
	}
	outcomes = s.record(outcomes, found, first)
	if held := firstPerKey(outcomes, true); len(held) > 0 {
		ids := newIDsInOrder[eventhook.Promise](s.now, len(held))
		if found, err = s.query(ctx, holdOutcomesSQL, outcomeColumns(held), pgx.NamedArgs{"now": s.now, "ids": uuids(ids)}); err != nil {
			return nil, fmt.Errorf("hold outcomes: %w", err)
		}
		outcomes = s.record(outcomes, found, held)
	}
	if len(outcomes) == 0 {
		return nil, nil
	}
	if found, err = s.query(ctx, findPromisesSQL, outcomeColumns(firstPerKey(outcomes, false)), nil); err != nil {
		return nil, fmt.Errorf("find promises: %w", err)
	}
	pending := map[promiseKey]bool{}
	for _, p := range found {
		pending[p.promiseKey] = p.status == eventhook.PromisePending
	}
	for _, o := range s.record(outcomes, found, nil) { // these promises do not exist
		pending[o.key()] = false
	}
	for _, o := range outcomes {
		if pending[o.key()] {
			left = append(left, o)
		}
	}
	return left, nil
}

// record records the results of outcomes whose promises were found, and returns the
// other outcomes. settlers are the outcomes that settled these promises. An outcome that
// comes before the settler of its key has no result: its promise did not exist yet.
func (s *promiseSettler) record(outcomes []keyedOutcome, found []foundPromise, settlers []keyedOutcome) (left []keyedOutcome) {
	ids := make(map[promiseKey]eventhook.PromiseID, len(found))
	for _, p := range found {
		ids[p.promiseKey] = p.id
	}
	settler := make(map[promiseKey]*effects.PromiseOutcome, len(settlers))
	for _, o := range settlers {
		settler[o.key()] = o.outcome
	}
	for _, o := range outcomes {
		id, ok := ids[o.key()]
		switch {
		case !ok:
			left = append(left, o)
		case settler[o.key()] == o.outcome:
			s.results[o.outcome] = promiseResult{id: id, exists: true, isSettler: true}
			delete(settler, o.key())
		case settler[o.key()] == nil:
			s.results[o.outcome] = promiseResult{id: id, exists: true}
		}
	}
	return left
}

// firstPerKey returns the first outcome of each key or, with onlyHoldable, the first
// that may be held.
func firstPerKey(outcomes []keyedOutcome, onlyHoldable bool) (first []keyedOutcome) {
	seen := map[promiseKey]bool{}
	for _, o := range outcomes {
		if k := o.key(); !seen[k] && (o.outcome.Hold || !onlyHoldable) {
			seen[k] = true
			first = append(first, o)
		}
	}
	return first
}

// outcomeColumns returns the parameters of outcomes in the statements of promises.
func outcomeColumns(outcomes []keyedOutcome) pgx.NamedArgs {
	n := len(outcomes)
	tenants, keys, states := make([][16]byte, n), make([]string, n), make([]string, n)
	values, errs := make([]*string, n), make([]*string, n)
	for i, o := range outcomes {
		tenants[i], keys[i], states[i] = o.tenant, o.outcome.Key, string(o.outcome.Status)
		values[i], errs[i] = jsonElement(o.outcome.Value), textElement(o.outcome.Error)
	}
	return pgx.NamedArgs{"tenants": tenants, "keys": keys, "statuses": states, "values": values, "errors": errs}
}

type foundPromise struct {
	promiseKey
	id     eventhook.PromiseID
	status eventhook.PromiseStatus
}

// query runs a statement with the parameters of outcomes and more. It ignores parameters
// that the statement does not have.
func (s *promiseSettler) query(ctx context.Context, sql string, outcomes, more pgx.NamedArgs) ([]foundPromise, error) {
	maps.Copy(outcomes, more)
	rows, err := s.tx.Query(ctx, sql, outcomes)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(r pgx.CollectableRow) (p foundPromise, err error) {
		err = r.Scan((*[16]byte)(&p.tenant), &p.key, (*[16]byte)(&p.id), (*string)(&p.status))
		return p, err
	})
}
