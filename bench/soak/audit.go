package soak

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// maxListed bounds the events that a summary names.
const maxListed = 20

// audit counts every event and finds the partitions that retention has left.
func (r *run) audit(ctx context.Context) (s Summary, err error) {
	conn, err := r.connect(ctx)
	if err != nil {
		return s, err
	}
	defer func() { _ = conn.Close(ctx) }()
	if err := r.auditSettled(ctx, conn); err != nil {
		return s, err
	}
	s = r.summarize()
	left, err := r.partitionsLeft(ctx, conn)
	if err != nil {
		return s, err
	}
	if len(left) > 0 {
		s.Problems = append(s.Problems, "retention left "+strings.Join(left, ", "))
	}
	return s, nil
}

// auditSettled counts the settled events of the database. An event is settled some time after its last
// delivery was answered.
func (r *run) auditSettled(ctx context.Context, conn *pgx.Conn) error {
	const pause = 500 * time.Millisecond
	for deadline := time.Now().Add(r.Patience); ; time.Sleep(pause) {
		numbers, err := r.settled(ctx, conn)
		if err != nil {
			return err
		}
		r.ledger.audit(numbers)
		if r.ledger.isAudited() || time.Now().After(deadline) || ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// partitionsLeft returns the partitions of days past the retention, and default partitions with rows.
// Maintenance at the start of a gateway removes both. It waits only briefly for locks, so it may need
// another start.
func (r *run) partitionsLeft(ctx context.Context, conn *pgx.Conn) (left []string, err error) {
	const starts = 3
	for i := range starts {
		if left, err = readLeft(ctx, conn); err != nil || len(left) == 0 || i == starts-1 {
			break
		}
		if err := r.restart(ctx, i%len(r.fleet.gateways)); err != nil {
			return nil, err
		}
	}
	return left, err
}

func readLeft(ctx context.Context, conn *pgx.Conn) ([]string, error) {
	oldest := time.Now().UTC().AddDate(0, 0, -keepDays).Format("20060102")
	rows, err := conn.Query(ctx, `SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent::regclass::text LIKE 'eventhook.%' AND c.relname ~ '_\d{8}$' AND right(c.relname, 8) < $1 ORDER BY 1`, oldest)
	if err != nil {
		return nil, err
	}
	left, err := pgx.CollectRows(rows, pgx.RowTo[string])
	for _, table := range tables {
		var filled bool
		if err == nil {
			err = conn.QueryRow(ctx, fmt.Sprintf(`SELECT EXISTS (SELECT FROM eventhook.%s_default)`, table)).Scan(&filled)
		}
		if filled {
			left = append(left, "rows in "+table+"_default")
		}
	}
	return left, err
}

func (l *ledger) isAudited() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for n := range l.sent {
		if !l.audited[n] {
			return false
		}
	}
	return true
}

// count fills the counts of a summary and lists the lost events.
func (l *ledger) count(s *Summary, faults []mark) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.Sent, s.Refused, s.Calls = l.sent, l.counts.refused, l.counts.runs
	lost := 0
	for n := range l.sent {
		s.Accepted += count(l.accepted[n])
		s.Settled += count(l.audited[n])
		s.Executed += count(l.runs[n] > 0)
		if missing := l.missing(n); len(missing) > 0 {
			if lost++; lost <= maxListed {
				s.Problems = append(s.Problems, fmt.Sprintf("event %d, sent after %s: %s", n, l.sentAt[n].Round(time.Millisecond), strings.Join(missing, ", ")))
			}
		}
	}
	s.Lost = lost
	for i, name := range kinds {
		s.Subscribers = append(s.Subscribers, l.countSubscriber(i, name, faults))
	}
}

// missing names the steps that event n has not reached.
func (l *ledger) missing(n int) (steps []string) {
	add := func(isMissing bool, text string) {
		if isMissing {
			steps = append(steps, text)
		}
	}
	add(!l.accepted[n], "not accepted")
	add(!l.audited[n], "not settled once in the database with one completed execution and all deliveries")
	add(l.runs[n] == 0, "no worker was called")
	for i, name := range kinds {
		add(l.received[i][n] == 0, "not received by the subscriber: "+name)
	}
	return steps
}

// countSubscriber counts the deliveries to a subscriber. A repetition is explained if a fault that
// interrupts work happened from margin before the first request to margin after it.
func (l *ledger) countSubscriber(i int, name string, faults []mark) SubscriberCount {
	const margin = 15 * time.Second
	c := SubscriberCount{Name: name, Requests: l.counts.received[i]}
	for n := range l.sent {
		requests := int(l.received[i][n])
		if requests > 0 {
			c.Events++
		}
		if requests > 1 {
			c.Repeated++
			at := l.first[i][n]
			isExplained := false
			for _, f := range faults {
				isExplained = isExplained || f.hazard && at > f.At-margin && at < f.Until+margin
			}
			c.Unexplained += count(!isExplained)
		}
	}
	return c
}

func count(is bool) int {
	if is {
		return 1
	}
	return 0
}
