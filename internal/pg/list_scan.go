package pg

import (
	"bytes"
	"cmp"
	"context"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
)

// A scan examines rows in descending order of their ids, step by step, and collects the
// rows that match conditions without an index. Each step is one statement that reads a
// limited number of rows. The scan stops when it has enough rows, at the end, or when its
// budget is used up; its caller continues it later.
//
// A scan of one tenant reads its rows in order. The rows of all tenants have no common
// order in any index. A scan of all tenants therefore reads a window of time in each
// step: the rows of each tenant in the window, through the tenant's index. It widens the
// window if that holds few rows, and narrows it if that holds more than a step may read.
type scan struct {
	scanLimits
	limit  int // rows to collect
	first  int // rows of the first step, if most rows match; 0: as many as of each step
	now    func() time.Time
	window time.Duration // of a scan of all tenants; 0 for one tenant
	read   func(ctx context.Context, from, before [16]byte, rows int) (scanStep, error)
}

// scanLimits are the budget of a scan. A step may use more time than is left.
type scanLimits struct {
	step int // rows of a step
	rows int // rows of all steps
	time time.Duration
}

// listScan is the budget of a page of a list.
var listScan = scanLimits{step: 10_000, rows: 2_000_000, time: 2 * time.Second}

// Windows of a scan of all tenants.
const (
	firstWindow  = 10 * time.Second
	minWindow    = time.Millisecond // the resolution of ids
	maxWindow    = 10 * 365 * day
	windowGrowth = 8
)

// scanStep is the result of one step. rows are the rows that match, newest first.
type scanStep struct {
	examined int
	oldest   [16]byte // of the examined rows
	rows     []rowKey
}

// rowKey is the primary key of an event or a delivery.
type rowKey struct{ tenant, id [16]byte }

// scanResult is the result of a scan, which continues before the id next; zero at the end.
type scanResult struct {
	rows     []rowKey
	examined int
	next     [16]byte
}

// run examines the rows with ids from from up to and not including before.
func (s *scan) run(ctx context.Context, from, before [16]byte) (out scanResult, err error) {
	end, size := s.now().Add(s.time), cmp.Or(s.first, s.step)
	for {
		floor := s.floor(from, before)
		most := size
		if s.window == minWindow { // cannot be narrower
			most = math.MaxInt32 - 1
		}
		step, err := s.read(ctx, floor, before, most)
		if err != nil {
			return out, err
		}
		if s.window > 0 && step.examined > most {
			s.window = max(s.window/windowGrowth, minWindow)
			continue
		}
		out.examined += step.examined
		isDone := s.window > 0 || step.examined < size
		if isDone {
			step.oldest = floor
		}
		if missing := s.limit - len(out.rows); len(step.rows) >= missing {
			out.rows = append(out.rows, step.rows[:missing]...)
			out.next = step.rows[missing-1].id
			return out, nil
		}
		out.rows = append(out.rows, step.rows...)
		before = step.oldest
		switch {
		case isDone && floor == from:
			return out, nil
		case out.examined >= s.rows || !s.now().Before(end):
			out.next = before
			return out, nil
		case step.examined < s.step/windowGrowth:
			s.window = min(s.window*windowGrowth, maxWindow)
		}
		size = min(size*windowGrowth, s.step)
	}
}

// floor returns the first id of the next step.
func (s *scan) floor(from, before [16]byte) [16]byte {
	if s.window == 0 {
		return from
	}
	newest := s.now()
	if at := eventhook.EventID(before).Time(); at.Before(newest) {
		newest = at
	}
	since := newest.Add(-s.window)
	if since.Before(time.Unix(0, 0)) {
		return from
	}
	floor := eventhook.FirstID[eventhook.Event](since)
	if bytes.Compare(floor[:], from[:]) < 0 {
		return from
	}
	return floor
}

// scanRows says which rows a scan examines and returns: rows of table, under alias, that
// satisfy where are examined, and those that also satisfy matches are returned. For all
// tenants, the conditions have t.id in place of @tenant.
type scanRows struct{ table, alias, where, matches string }

// sql returns the statement of a step. It has the parameters @from, @before and @rows.
func (r scanRows) sql(isOfAll bool) string {
	x := r.alias
	rows := `SELECT ` + x + `.tenant_id, ` + x + `.id, (` + r.matches + `) IS TRUE AS matches FROM eventhook.` + r.table + ` ` + x + ` WHERE ` + r.where
	if isOfAll {
		rows = `SELECT r.* FROM eventhook.tenant t CROSS JOIN LATERAL (` + rows + `) r LIMIT @rows + 1`
	} else {
		rows += ` ORDER BY ` + x + `.id DESC LIMIT @rows`
	}
	return scanStepSQL(rows)
}

// scanStepSQL returns the statement of a step that examines rows. These have the columns tenant_id,
// id and matches.
func scanStepSQL(rows string) string {
	return `
WITH examined AS MATERIALIZED (` + rows + `)
SELECT count(*), (array_agg(id ORDER BY id))[1], array_agg(tenant_id ORDER BY id DESC) FILTER (WHERE matches), array_agg(id ORDER BY id DESC) FILTER (WHERE matches)
FROM examined`
}

// readScanStep runs the statement of a step.
func (p *listPool) readScanStep(ctx context.Context, sql string, args pgx.StrictNamedArgs) (step scanStep, err error) {
	var oldest *[16]byte
	var tenants, ids [][16]byte
	list, err := readPlannedOnce(ctx, p, sql, func(r pgx.CollectableRow) (scanStep, error) {
		err := r.Scan(&step.examined, &oldest, &tenants, &ids)
		return step, err
	}, args)
	if err != nil || len(list) == 0 {
		return step, err
	}
	if oldest != nil {
		step.oldest = *oldest
	}
	for i, id := range ids {
		step.rows = append(step.rows, rowKey{tenants[i], id})
	}
	return step, nil
}

// keysOf returns the columns of primary keys.
func keysOf(rows []rowKey) (tenants, ids [][16]byte) {
	for _, r := range rows {
		tenants, ids = append(tenants, r.tenant), append(ids, r.id)
	}
	return tenants, ids
}
