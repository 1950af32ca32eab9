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

// settleDeliveriesSQL demands each delivery's lease token, so that an instance
// that wakes up late changes nothing, and adds a line to its history, whose
// oldest lines go when it has become long. For the first success after deaths
// it resets their count; of a subscription that has none it reads an index and
// writes nothing. Primary key lookups, one partition each.
var settleDeliveriesSQL = newStatement("settle_deliveries", `
WITH settled AS (
    UPDATE eventhook.delivery d
    SET status = settlements.status, due_at = settlements.due_at, completed_at = CASE WHEN settlements.due_at IS NULL THEN @now::timestamptz END,
        retry_count = settlements.retry_count, last_error = settlements.last_error, attempts = d.attempts + settlements.made,
        status_code = CASE settlements.made WHEN 0 THEN d.status_code ELSE settlements.status_code END,
        history = CASE WHEN settlements.line IS NULL THEN d.history
            WHEN octet_length(d.history) > 65536 THEN regexp_replace(right(d.history, 32768), '^[^\n]*\n', '') || settlements.line
            ELSE concat(d.history, settlements.line) END
    FROM @settlements(tenant_id uuid, id uuid, lease_token int8, status text, due_at timestamptz, retry_count int4, last_error text,
            made int4, status_code int4, line text, heals uuid)
    WHERE d.tenant_id = settlements.tenant_id AND d.id = settlements.id AND d.lease_token = settlements.lease_token AND d.status = 'acquired'
    RETURNING d.id, settlements.heals
), ailing AS MATERIALIZED (
    SELECT h.subscription_id FROM eventhook.subscription_health h
    WHERE h.subscription_id = ANY (ARRAY(SELECT DISTINCT heals FROM settled WHERE heals IS NOT NULL)) AND h.dead_in_row > 0
    ORDER BY h.subscription_id FOR UPDATE
), healed AS (
    UPDATE eventhook.subscription_health h SET dead_in_row = 0 FROM ailing a WHERE h.subscription_id = a.subscription_id
)
SELECT id FROM settled`)

var (
	settleDeliveryTenant     = settleDeliveriesSQL.uuid("settlements.tenant_id")
	settleDeliveryID         = settleDeliveriesSQL.uuid("settlements.id")
	settleDeliveryToken      = settleDeliveriesSQL.int8("settlements.lease_token")
	settleDeliveryStatus     = settleDeliveriesSQL.text("settlements.status")
	settleDeliveryDueAt      = settleDeliveriesSQL.time("settlements.due_at")
	settleDeliveryRetryCount = settleDeliveriesSQL.int4("settlements.retry_count")
	settleDeliveryError      = settleDeliveriesSQL.text("settlements.last_error")
	settleDeliveryAttempts   = settleDeliveriesSQL.int4("settlements.made")
	settleDeliveryStatusCode = settleDeliveriesSQL.int4("settlements.status_code")
	settleDeliveryHistory    = settleDeliveriesSQL.text("settlements.line")
	settleDeliveryHeals      = settleDeliveriesSQL.uuid("settlements.heals")
	settleDeliveryNow        = settleDeliveriesSQL.moment("now")
)

// deliverySettleColumns are the parameters of the statements of a settle.
type deliverySettleColumns struct{ deliveries, events *columns }

func newDeliverySettleColumns() *deliverySettleColumns {
	return &deliverySettleColumns{newColumns(settleDeliveriesSQL), newColumns(concludeEventsSQL)}
}

// SettleDeliveries records what came of leased deliveries, with their attempts,
// and ends their leases. Those whose lease was lost are left alone and returned,
// as is one that the database refuses for what it holds. As long as all go well
// or are tried again, it is one round trip and one transaction.
//
// If deliveries to targets of routes end, their events are concluded in the same
// transaction, and EventStatus of one settlement says so; see concludeEventsSQL.
//
// Deliveries that are dead are counted in a row for their subscription, in the
// order of the batch, and a success begins anew. When there are DeadInRow of them,
// or with Disable, the subscription is disabled in the same transaction. Of dead
// ones the tenant is told by events of the gateway's own, one for each
// subscription. Tests count for nothing, and nobody is told of them.
func (db *DB) SettleDeliveries(ctx context.Context, batch []*outbound.DeliverySettlement) (lost []*outbound.DeliverySettlement, err error) {
	settle := func(part []*outbound.DeliverySettlement) error {
		more, err := db.settleDeliveries(ctx, part)
		lost = append(lost, more...)
		return err
	}
	if len(batch) == 0 {
		return nil, nil
	}
	err = settle(batch)
	if isDataError(err) {
		err = bisect(batch, settle, func(s *outbound.DeliverySettlement, err error) {
			db.log.Error("the database refused what came of a delivery", "delivery", s.Delivery.ID, "error", err)
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
			db.notifyConcluded(done.events)
			setEventStatuses(batch, done)
		}
		if !hasCode(err, codeDeadlock, codeSerialization) {
			return done.lost, err
		}
		db.log.Warn("settling deliveries again", "error", err)
	}
}

// settleResult is what a settle did: the settlements whose lease was lost, and
// the events that were concluded.
type settleResult struct {
	lost   []*outbound.DeliverySettlement
	events []concluded
}

// setEventStatuses sets EventStatus of one settlement for each event that was concluded.
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

// ends reports whether a settlement ends a delivery of a route, so that its event may
// end, too.
func endsRouteDelivery(s *outbound.DeliverySettlement) bool {
	return s.Delivery.IsOfRoute() && s.Status != eventhook.DeliveryFailed
}

// affectsSubscription reports whether a settlement may change its subscription.
func affectsSubscription(s *outbound.DeliverySettlement) bool {
	return !s.IsTest && !s.Delivery.IsOfRoute() && (s.Status == eventhook.DeliveryDead || s.Disable != "")
}

// resetsDeadCount reports whether a settlement ends a row of deaths.
func resetsDeadCount(s *outbound.DeliverySettlement) bool {
	return !s.IsTest && !s.Delivery.IsOfRoute() && s.Status == eventhook.DeliverySuccess
}

// settleWithoutDead settles deliveries that change no subscription, in one round trip.
func (db *DB) settleWithoutDead(ctx context.Context, batch []*outbound.DeliverySettlement) (done settleResult, err error) {
	conn, err := db.work.Acquire(ctx)
	if err != nil {
		return done, err
	}
	defer conn.Release()
	return db.settleOnConn(ctx, conn.Conn().PgConn(), batch, true)
}

// settleOnConn settles deliveries, concludes the events of those that belong to routes
// and, if heals is true, resets the counts of deaths. Without a transaction on the
// connection, its statements are one: PostgreSQL commits at the end of the batch.
func (db *DB) settleOnConn(ctx context.Context, conn *pgconn.PgConn, batch []*outbound.DeliverySettlement, heals bool) (done settleResult, err error) {
	c := db.deliverySettleBufs.Get().(*deliverySettleColumns) //nolint:forcetypeassert // the pool holds nothing else
	defer db.deliverySettleBufs.Put(c)
	now, b := db.now(), &pgconn.Batch{}
	queueSettlements(b, c.deliveries, batch, heals, now)
	concludes := queueConclusion(b, c.events, batch, now)
	results, err := conn.ExecBatch(ctx, b).ReadAll()
	if err != nil {
		return done, err
	}
	if concludes {
		done.events = readConcluded(results[len(results)-1].Rows)
	}
	done.lost = lostSettlements(batch, results[0].Rows)
	return done, nil
}

func queueSettlements(b *pgconn.Batch, c *columns, batch []*outbound.DeliverySettlement, heals bool, now time.Time) {
	c.reset()
	// One order for all, so that two settles wait for each other at worst.
	ordered := slices.Clone(batch)
	slices.SortFunc(ordered, func(x, y *outbound.DeliverySettlement) int {
		return cmp.Compare(string(x.Delivery.ID[:]), string(y.Delivery.ID[:]))
	})
	for _, s := range ordered {
		encodeSettlement(c, s, heals && resetsDeadCount(s))
	}
	c.moment(settleDeliveryNow, now)
	batchSender(b).rows(settleDeliveriesSQL, c)
}

// queueConclusion concludes the events of the deliveries of routes that end, and
// reports whether there are any.
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

// lostSettlements are the settlements of which the database returned no row.
func lostSettlements(batch []*outbound.DeliverySettlement, rows [][][]byte) (lost []*outbound.DeliverySettlement) {
	if len(rows) == len(batch) {
		return nil
	}
	settled := make(map[eventhook.DeliveryID]bool, len(rows))
	for _, row := range rows {
		settled[eventhook.DeliveryID(row[0])] = true
	}
	for _, s := range batch {
		if !settled[s.Delivery.ID] {
			lost = append(lost, s)
		}
	}
	return lost
}

func encodeSettlement(c *columns, s *outbound.DeliverySettlement, heals bool) {
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
	if heals {
		c.uuid(settleDeliveryHeals, d.SubscriptionID)
	} else {
		c.null(settleDeliveryHeals.column)
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

// attemptRecord is an attempt as a line of a delivery's history. Lines of former versions
// have the longer names.
type attemptRecord struct {
	At         int64                `json:"t"` // when it began, in Unix microseconds
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

// maxAttemptError bounds what is kept of an attempt's error, in bytes.
const maxAttemptError = 1 << 10

func historyLine(a *eventhook.Attempt) string {
	var line bytes.Buffer
	encoder := json.NewEncoder(&line)
	encoder.SetEscapeHTML(false)                                                                                                   // an excerpt is often a page
	_ = encoder.Encode(attemptRecord{At: a.StartedAt.UnixMicro(), DurationMS: a.Duration.Milliseconds(), StatusCode: a.StatusCode, //nolint:errchkjson // nothing in it can fail
		Error: truncated(a.Error, maxAttemptError), ErrorClass: a.ErrorClass, Excerpt: truncated(a.Excerpt, eventhook.MaxExcerpt)})
	return line.String()
}

// shortened is the beginning of a text, without half a character at its end.
func truncated(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "")
}

// parseHistory are the attempts that a history tells of, the first of them first.
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
