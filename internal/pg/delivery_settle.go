package pg

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound"
)

// settleDeliveriesSQL requires each delivery's lease token, so that an instance which
// continues after its lease has expired changes nothing. It appends a line to the delivery's
// history and drops the oldest lines of a history that has become long. A success resets the
// subscription's count of dead deliveries in a row and ends its outage; without either, the
// statement reads an index and writes nothing. It returns the ids of the settled deliveries, and a
// NULL for each recovery that begins. Primary key lookups, one partition each.
var settleDeliveriesSQL = newStatement("settle_deliveries", `
WITH settled AS (
    UPDATE eventhook.delivery d
    SET status = settlements.status, due_at = settlements.due_at, completed_at = CASE WHEN settlements.due_at IS NULL THEN @now::timestamptz END,
        retry_count = settlements.retry_count, last_error = settlements.last_error, attempts = d.attempts + settlements.attempts,
        status_code = CASE settlements.attempts WHEN 0 THEN d.status_code ELSE settlements.status_code END,
        history = CASE WHEN settlements.line IS NULL THEN d.history
            WHEN octet_length(d.history) > 65536 THEN regexp_replace(right(d.history, 32768), '^[^\n]*\n', '') || settlements.line
            ELSE concat(d.history, settlements.line) END
    FROM @settlements(tenant_id uuid, id uuid, lease_token int8, status text, due_at timestamptz, retry_count int4, last_error text,
            attempts int4, status_code int4, line text, resets uuid)
    WHERE d.tenant_id = settlements.tenant_id AND d.id = settlements.id AND d.lease_token = settlements.lease_token AND d.status = 'acquired'
    RETURNING d.id, settlements.resets
), failing AS MATERIALIZED (
    SELECT h.subscription_id, h.failing_since, h.is_held FROM eventhook.subscription_health h
    WHERE h.subscription_id = ANY (ARRAY(SELECT DISTINCT resets FROM settled WHERE resets IS NOT NULL)) AND (h.dead_in_row > 0 OR h.failing_since IS NOT NULL)
    ORDER BY h.subscription_id FOR UPDATE
), reset AS (
    UPDATE eventhook.subscription_health h SET dead_in_row = 0, dead_since = NULL, `+endOutageSet+`
    FROM failing f WHERE h.subscription_id = f.subscription_id
), recovery AS (`+insertRecoveries("@now", "@now")+`
    RETURNING id
)
SELECT id FROM settled UNION ALL SELECT NULL FROM recovery`)

var (
	settleDeliveryTenant     = settleDeliveriesSQL.uuid("settlements.tenant_id")
	settleDeliveryID         = settleDeliveriesSQL.uuid("settlements.id")
	settleDeliveryToken      = settleDeliveriesSQL.int8("settlements.lease_token")
	settleDeliveryStatus     = settleDeliveriesSQL.text("settlements.status")
	settleDeliveryDueAt      = settleDeliveriesSQL.time("settlements.due_at")
	settleDeliveryRetryCount = settleDeliveriesSQL.int4("settlements.retry_count")
	settleDeliveryError      = settleDeliveriesSQL.text("settlements.last_error")
	settleDeliveryAttempts   = settleDeliveriesSQL.int4("settlements.attempts")
	settleDeliveryStatusCode = settleDeliveriesSQL.int4("settlements.status_code")
	settleDeliveryHistory    = settleDeliveriesSQL.text("settlements.line")
	settleDeliveryResets     = settleDeliveriesSQL.uuid("settlements.resets")
	settleDeliveryNow        = settleDeliveriesSQL.moment("now")
)

// deliverySettleColumns are the reusable parameter buffers of one SettleDeliveries call.
type deliverySettleColumns struct {
	deliveries, outages, events *columns
	order                       orderEndColumns
}

func newDeliverySettleColumns() *deliverySettleColumns {
	return &deliverySettleColumns{newColumns(settleDeliveriesSQL), newColumns(openOutagesSQL), newColumns(concludeEventsSQL),
		newOrderEndColumns()}
}

// SettleDeliveries records the outcomes and attempts of leased deliveries and ends their
// leases. It changes nothing for a delivery whose lease was lost, or whose values the database
// refuses, and returns these settlements. A batch without dead deliveries and without
// subscriptions to disable takes one round trip and one transaction.
//
// An event of a route ends when one of its deliveries is dead or none is open; see
// concludeEventsSQL. It ends in the same transaction, and EventStatus of one of its
// settlements is set.
//
// Dead deliveries are counted per subscription, in the order of the batch; a success resets
// the count and ends the outage. When the count reaches DeadInRow, or a settlement has Disable, the subscription
// is disabled in the same transaction. The tenant is notified of dead deliveries by system
// events, one per subscription. Test deliveries are neither counted nor reported.
func (db *DB) SettleDeliveries(ctx context.Context, batch []*outbound.DeliverySettlement) (lost []*outbound.DeliverySettlement, err error) {
	settle := func(part []*outbound.DeliverySettlement) error {
		more, err := db.settleDeliveries(ctx, part)
		if err == nil {
			lost = append(lost, more...)
		}
		return err
	}
	if len(batch) == 0 {
		return nil, nil
	}
	err = settle(batch)
	if isDataError(err) {
		err = bisect(batch, settle, func(s *outbound.DeliverySettlement, err error) {
			db.log.Error("the database refused the outcome of a delivery", "delivery", s.Delivery.ID, "trace_id", s.Delivery.Trace(),
				"error", err)
			lost = append(lost, s)
		})
	}
	if err != nil {
		return nil, fmt.Errorf("settle deliveries: %w", err)
	}
	return lost, nil
}

func (db *DB) settleDeliveries(ctx context.Context, batch []*outbound.DeliverySettlement) ([]*outbound.DeliverySettlement, error) {
	for {
		var done settleResult
		var err error
		if slices.ContainsFunc(batch, affectsSubscription) {
			done, err = db.settleWithDead(ctx, batch)
		} else {
			done, err = db.settleWithoutDead(ctx, batch)
		}
		if err == nil {
			err = db.flushSettled(ctx, batch)
		}
		if err == nil {
			db.notifyConcluded(done.events)
			setEventStatuses(batch, done)
		}
		if !hasCode(err, codeDeadlock, codeSerialization) {
			return done.lost, err
		}
		db.log.Warn("settling deliveries conflicted with another transaction; trying again", "error", err)
	}
}

// settleResult holds the settlements whose lease was lost, the events that were concluded, and the
// number of recoveries that began.
type settleResult struct {
	lost      []*outbound.DeliverySettlement
	events    []concluded
	recovered int
}

// setEventStatuses sets EventStatus of one settlement for each concluded event.
func setEventStatuses(batch []*outbound.DeliverySettlement, done settleResult) {
	status := make(map[eventhook.EventID]eventhook.EventStatus, len(done.events))
	for _, e := range done.events {
		status[e.id] = e.status
	}
	for _, s := range batch {
		if endsRouteDelivery(s) && !slices.Contains(done.lost, s) {
			s.EventStatus = status[s.Delivery.EventID]
			delete(status, s.Delivery.EventID)
		}
	}
}

// endsRouteDelivery reports whether a settlement ends a delivery of a route, so that its event
// may end as well.
func endsRouteDelivery(s *outbound.DeliverySettlement) bool {
	return s.Delivery.IsOfRoute() && s.Status != eventhook.DeliveryFailed
}

// affectsSubscription reports whether a settlement may disable its subscription.
func affectsSubscription(s *outbound.DeliverySettlement) bool {
	return !s.IsUncounted && !s.Delivery.IsOfRoute() && (s.Status == eventhook.DeliveryDead && !s.IsProbe || s.Disable != "")
}

// resetsDeadCount reports whether a settlement resets its subscription's count of dead
// deliveries in a row.
func resetsDeadCount(s *outbound.DeliverySettlement) bool {
	return !s.IsUncounted && !s.Delivery.IsOfRoute() && s.Status == eventhook.DeliverySuccess
}

// settleWithoutDead settles deliveries that disable no subscription, in one round trip.
func (db *DB) settleWithoutDead(ctx context.Context, batch []*outbound.DeliverySettlement) (done settleResult, err error) {
	conn, err := db.work.Acquire(ctx)
	if err != nil {
		return done, err
	}
	defer conn.Release()
	if done, err = db.settleOnConn(ctx, conn.Conn().PgConn(), batch, true); err == nil {
		db.recoveriesBegan(done.recovered)
	}
	return done, err
}

// settleOnConn settles deliveries and concludes the events of those that belong to routes. If
// isWhole is true, no transaction is open on the connection, and the statements form one:
// PostgreSQL commits at the end of the batch. Then settleOnConn also records outages, resets
// counts of dead deliveries and, at the end, makes the next deliveries of keys due.
func (db *DB) settleOnConn(ctx context.Context, conn *pgconn.PgConn, batch []*outbound.DeliverySettlement,
	isWhole bool) (done settleResult, err error) {
	c := db.deliverySettleBufs.Get().(*deliverySettleColumns) //nolint:forcetypeassert // the pool holds nothing else
	defer db.deliverySettleBufs.Put(c)
	now, b := db.now(), &pgconn.Batch{}
	before := c.order.begin(b, batch, now)
	queueSettlements(b, c.deliveries, batch, isWhole, now)
	if isWhole {
		queueOutages(b, c.outages, batch, now)
	}
	concludes, after := queueConclusion(b, c.events, batch, now), 0
	if isWhole {
		after = c.order.end(b)
	}
	results, err := conn.ExecBatch(ctx, b).ReadAll()
	if err != nil {
		return done, err
	}
	if concludes {
		done.events = readConcluded(results[len(results)-1-after].Rows)
	}
	done.lost, done.recovered = readSettled(batch, results[before].Rows)
	if after > 0 {
		setNextIsDue(batch, results[len(results)-1].Rows)
	}
	return done, nil
}

func queueSettlements(b *pgconn.Batch, c *columns, batch []*outbound.DeliverySettlement, resets bool, now time.Time) {
	c.reset()
	// A common lock order: two settles can wait for each other but not deadlock.
	ordered := slices.Clone(batch)
	slices.SortFunc(ordered, func(x, y *outbound.DeliverySettlement) int {
		return cmp.Compare(string(x.Delivery.ID[:]), string(y.Delivery.ID[:]))
	})
	for _, s := range ordered {
		encodeSettlement(c, s, resets && resetsDeadCount(s))
	}
	c.moment(settleDeliveryNow, now)
	batchSender(b).rows(settleDeliveriesSQL, c)
}

// queueConclusion queues the statements that conclude the events of the route deliveries that
// end. It reports whether there are any.
func queueConclusion(b *pgconn.Batch, c *columns, batch []*outbound.DeliverySettlement, now time.Time) bool {
	var events []eventKey
	for _, s := range batch {
		if endsRouteDelivery(s) {
			events = append(events, eventKey{s.Delivery.TenantID, s.Delivery.EventID})
		}
	}
	if len(events) == 0 {
		return false
	}
	encodeEventKeys(c, events)
	queueLockEvents(b, c)
	queueConcludeEvents(b, c, now)
	return true
}

// readSettled returns the settlements for which settleDeliveriesSQL returned no row, and the number
// of recoveries that began.
func readSettled(batch []*outbound.DeliverySettlement, rows [][][]byte) (lost []*outbound.DeliverySettlement, recovered int) {
	for _, row := range rows {
		if row[0] == nil {
			recovered++
		}
	}
	if len(rows)-recovered == len(batch) {
		return nil, recovered
	}
	settled := make(map[eventhook.DeliveryID]bool, len(rows))
	for _, row := range rows {
		if row[0] != nil {
			settled[eventhook.DeliveryID(row[0])] = true
		}
	}
	for _, s := range batch {
		if !settled[s.Delivery.ID] {
			lost = append(lost, s)
		}
	}
	return lost, recovered
}

func encodeSettlement(c *columns, s *outbound.DeliverySettlement, resets bool) {
	d := s.Delivery
	c.uuid(settleDeliveryTenant, d.TenantID)
	c.uuid(settleDeliveryID, d.ID)
	c.int8(settleDeliveryToken, d.Lease.Token)
	c.text(settleDeliveryStatus, string(s.Status))
	if s.Status == eventhook.DeliveryFailed {
		c.time(settleDeliveryDueAt, s.DueAt)
	} else {
		c.null(settleDeliveryDueAt.column)
	}
	c.int4(settleDeliveryRetryCount, s.RetryCount)
	c.optionalText(settleDeliveryError, eventhook.SanitizeText(s.LastError))
	encodeAttempt(c, s.Attempt)
	if resets {
		c.uuid(settleDeliveryResets, d.SubscriptionID)
	} else {
		c.null(settleDeliveryResets.column)
	}
}

func encodeAttempt(c *columns, a *eventhook.Attempt) {
	if a == nil {
		c.int4(settleDeliveryAttempts, 0)
		c.null(settleDeliveryStatusCode.column)
		c.null(settleDeliveryHistory.column)
		return
	}
	c.int4(settleDeliveryAttempts, 1)
	if a.StatusCode == 0 {
		c.null(settleDeliveryStatusCode.column)
	} else {
		c.int4(settleDeliveryStatusCode, a.StatusCode)
	}
	c.text(settleDeliveryHistory, historyLine(a))
}

// attemptRecord is an attempt as a line of a delivery's history. Lines that former versions
// wrote have the longer member names.
type attemptRecord struct {
	At         int64                `json:"t"` // when the attempt began, in Unix microseconds
	DurationMS int64                `json:"d"`
	StatusCode int                  `json:"s,omitempty"`
	Error      string               `json:"e,omitempty"`
	ErrorClass eventhook.ErrorClass `json:"c,omitempty"`
	Excerpt    string               `json:"x,omitempty"`

	FormerStartedAt  *time.Time           `json:"started_at,omitempty"`
	FormerDurationMS int64                `json:"duration_ms,omitempty"`
	FormerStatusCode int                  `json:"status_code,omitempty"`
	FormerError      string               `json:"error,omitempty"`
	FormerErrorClass eventhook.ErrorClass `json:"error_class,omitempty"`
	FormerExcerpt    string               `json:"response_excerpt,omitempty"`
}

// maxAttemptError is the maximum length of a stored attempt error, in bytes.
const maxAttemptError = 1 << 10

func historyLine(a *eventhook.Attempt) string {
	var line bytes.Buffer
	encoder := json.NewEncoder(&line)
	encoder.SetEscapeHTML(false)                                                                                                   // an excerpt is often a page
	_ = encoder.Encode(attemptRecord{At: a.StartedAt.UnixMicro(), DurationMS: a.Duration.Milliseconds(), StatusCode: a.StatusCode, //nolint:errchkjson // nothing in it can fail
		Error: truncated(a.Error, maxAttemptError), ErrorClass: a.ErrorClass, Excerpt: truncated(a.Excerpt, eventhook.MaxExcerpt)})
	return line.String()
}

// truncated returns the first limit bytes of s, without an incomplete character at the end.
func truncated(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "")
}

// parseHistory returns the attempts of a history, oldest first.
func parseHistory(history string) ([]eventhook.Attempt, error) {
	var list []eventhook.Attempt
	for line := range strings.Lines(history) {
		var r attemptRecord
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			return nil, fmt.Errorf("read the history of a delivery: %w", err)
		}
		if r.FormerStartedAt != nil {
			r = attemptRecord{At: r.FormerStartedAt.UnixMicro(), DurationMS: r.FormerDurationMS, StatusCode: r.FormerStatusCode,
				Error: r.FormerError, ErrorClass: r.FormerErrorClass, Excerpt: r.FormerExcerpt}
		}
		list = append(list, eventhook.Attempt{StartedAt: time.UnixMicro(r.At).UTC(), Duration: time.Duration(r.DurationMS) * time.Millisecond,
			StatusCode: r.StatusCode, Error: r.Error, ErrorClass: r.ErrorClass, Excerpt: r.Excerpt})
	}
	return list, nil
}
