package pg

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/effects"
	"github.com/eventhook/eventhook/internal/wake"
)

// Channels of NOTIFY. Triggers of the configuration tables notify configChannel.
const (
	configChannel = "eventhook_config"
	wakeChannel   = "eventhook_wake"
)

const (
	eventsTopic     = "events"
	deliveriesTopic = "deliveries"
	replaysTopic    = "replays"
)

// topicParts is the number of topics per tenant for work, and for promises. It bounds the
// topics in memory; a waiter for one queue, or one promise, is seldom woken for another.
// During a rolling upgrade, instances of the former version must understand the same
// topics: change neither the number nor the hash.
const topicParts = 64

func workTopic(tenant eventhook.TenantID, queue string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(queue)) // never fails
	return fmt.Sprintf("work %s %d", tenant, h.Sum32()%topicParts)
}

func promiseTopic(tenant eventhook.TenantID, id eventhook.PromiseID) string {
	return fmt.Sprintf("promise %s %d", tenant, uint32(id[len(id)-1])%topicParts)
}

// hub wakes the waiters of this process at once, and collects topics for SendNotifications to
// send to the other instances.
type hub struct {
	mu       sync.Mutex
	topics   map[string]chan struct{}
	unsent   map[string]bool
	outgoing wake.Signal
	self     string // the sender name in this process's notifications; Listen ignores them
}

// wait returns a channel that is closed at the next wake of the topic. Call it before reading
// the database, so that no wake-up is lost in between.
func (h *hub) wait(topic string) <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	c, ok := h.topics[topic]
	if !ok {
		c = make(chan struct{})
		h.topics[topic] = c
	}
	return c
}

// wake wakes the waiters of this process at once, and the waiters of other instances soon after.
func (h *hub) wake(topics ...string) {
	if len(topics) == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range topics {
		h.wakeLocked(t)
		if h.unsent == nil {
			h.unsent = map[string]bool{}
		}
		h.unsent[t] = true
	}
	h.outgoing.Notify()
}

func (h *hub) wakeLocal(topic string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.wakeLocked(topic)
}

func (h *hub) wakeLocked(topic string) {
	if c, ok := h.topics[topic]; ok {
		close(c)
		delete(h.topics, topic)
	}
}

func (h *hub) wakeAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for t := range h.topics {
		h.wakeLocked(t)
	}
}

func (h *hub) takeUnsent() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var topics []string
	for t := range h.unsent {
		topics = append(topics, t)
	}
	h.unsent = nil
	return topics
}

// EventsWake returns a channel that is closed when events may have become due on any instance.
func (db *DB) EventsWake() <-chan struct{} { return db.hub.wait(eventsTopic) }

// WakeEvents wakes the processors of all instances, because events are due that this process
// does not claim itself.
func (db *DB) WakeEvents() { db.hub.wake(eventsTopic) }

// WorkWake returns a channel that is closed when work in a queue of the tenant may have become
// due. Call it before claiming, so that no wake-up is lost in between.
func (db *DB) WorkWake(tenant eventhook.TenantID, queue string) <-chan struct{} {
	return db.hub.wait(workTopic(tenant, queue))
}

// PromiseWake returns a channel that is closed when the promise may have been settled.
func (db *DB) PromiseWake(tenant eventhook.TenantID, id eventhook.PromiseID) <-chan struct{} {
	return db.hub.wait(promiseTopic(tenant, id))
}

// wakeWorkers wakes the waiters for the executions, promises and deliveries that the settled
// events have created. woken are further topics to wake.
func (db *DB) wakeWorkers(batch []*effects.Settlement, woken []string) {
	type queue struct {
		tenant eventhook.TenantID
		name   string
	}
	seen := map[queue]bool{}
	topics, leavesDeliveries := woken, false
	for _, s := range batch {
		for i := range s.Actions {
			a := &s.Actions[i]
			switch {
			case a.Effect.Request != nil && a.Status == eventhook.ActionPending && a.Effect.Request.Delivery.Lease.Until.IsZero():
				leavesDeliveries = true
			case a.Status != eventhook.ActionSuccess:
			case a.Effect.Promise != nil:
				topics = append(topics, promiseTopic(s.Event.TenantID, a.PromiseID))
			case a.Effect.Execution != nil:
				seen[queue{s.Event.TenantID, a.Effect.Execution.Queue}] = true
			}
		}
	}
	for q := range seen {
		topics = append(topics, workTopic(q.tenant, q.name))
	}
	if leavesDeliveries {
		topics = append(topics, deliveriesTopic)
	}
	db.hub.wake(topics...)
}

// SendNotifications sends the wake-ups of this process to the other instances until ctx ends,
// at most once per interval. A NOTIFY takes a lock on the whole database, so the transactions
// that cause wake-ups do not send them. Wake-ups that cannot be sent are dropped: every waiter
// also polls at a low rate.
func (db *DB) SendNotifications(ctx context.Context, interval time.Duration) error {
	tick := time.NewTimer(0)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-db.hub.outgoing:
		}
		if topics := append(db.hub.takeUnsent(), db.feed.takeNotices()...); len(topics) > 0 {
			const sql = `SELECT pg_notify('` + wakeChannel + `', $2 || ' ' || topic) FROM unnest($1::text[]) AS topic`
			if _, err := db.work.Exec(ctx, sql, topics, db.hub.self); err != nil && ctx.Err() == nil {
				db.log.Warn("cannot notify other instances of new work", "error", err)
			}
		}
		tick.Reset(interval)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// ConfigChange identifies a change of the configuration. The zero value means that anything
// may have changed.
type ConfigChange struct {
	SourceID       eventhook.SourceID
	TenantID       eventhook.TenantID
	SubscriptionID eventhook.SubscriptionID // a subscription of TenantID; the slugs are ""
	TenantSlug     string
	SourceSlug     string // "" if the tenant itself has changed
}

// Listen receives notifications of other instances and of the configuration's triggers until
// ctx ends. It calls onConfig for each configuration change, one call at a time. After every
// connect it reports the zero ConfigChange, since it may have missed changes.
func (db *DB) Listen(ctx context.Context, onConfig func(ConfigChange)) error {
	for ctx.Err() == nil {
		err := db.listenOnce(ctx, onConfig)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // ctx has ended the connection
		}
		db.log.Warn("the connection that listens for notifications broke; connecting again", "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(500 * time.Millisecond):
		}
	}
	return nil
}

func (db *DB) listenOnce(ctx context.Context, onConfig func(ConfigChange)) error {
	conn, err := pgx.ConnectConfig(ctx, db.work.Config().ConnConfig)
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(closing)
	}()
	if _, err := conn.Exec(ctx, "LISTEN "+configChannel+"; LISTEN "+wakeChannel); err != nil {
		return err
	}
	db.subscriptionsChanged(eventhook.TenantID{})
	onConfig(ConfigChange{})
	db.hub.wakeAll()
	db.feed.markAllMissed()
	for {
		n, err := waitForNotification(ctx, conn)
		if err != nil {
			return err
		}
		if n == nil {
			continue
		}
		if n.Channel == wakeChannel {
			if from, topic, ok := strings.Cut(n.Payload, " "); ok && from != db.hub.self {
				db.handleNotice(topic)
			}
			continue
		}
		change, err := parseConfigChange(n.Payload)
		if err != nil {
			db.log.Warn("a configuration notification has an unknown format; invalidating all caches", slog.String("payload", n.Payload))
		}
		if change.TenantID.IsZero() || !change.SubscriptionID.IsZero() {
			db.subscriptionsChanged(change.TenantID)
		}
		onConfig(change)
	}
}

// waitForNotification waits for the next notification for a limited time. It returns nil and
// no error if none came and the server answers a ping, so that a connection that died silently
// is detected.
func waitForNotification(ctx context.Context, conn *pgx.Conn) (*pgconn.Notification, error) {
	const timeout = 15 * time.Second
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	n, err := conn.WaitForNotification(waiting)
	if err == nil || ctx.Err() != nil || waiting.Err() == nil {
		return n, err
	}
	pinging, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return nil, conn.Ping(pinging)
}

func parseConfigChange(payload string) (c ConfigChange, err error) {
	fields := strings.Fields(payload)
	if len(fields) != 3 {
		return c, errors.New("want three fields")
	}
	switch fields[0] {
	case "tenant":
		c.TenantSlug = fields[2]
		c.TenantID, err = eventhook.ParseID[eventhook.Tenant](fields[1])
	case "source":
		c.TenantSlug, c.SourceSlug, _ = strings.Cut(fields[2], "/")
		c.SourceID, err = eventhook.ParseID[eventhook.Source](fields[1])
	case "subscription":
		if c.SubscriptionID, err = eventhook.ParseID[eventhook.Subscription](fields[1]); err == nil {
			c.TenantID, err = eventhook.ParseID[eventhook.Tenant](fields[2])
		}
	default:
		err = errors.New("unknown kind")
	}
	if err != nil {
		return ConfigChange{}, err
	}
	return c, nil
}
