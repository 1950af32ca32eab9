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
	self     string // names this process to itself in notices
}

// wait returns a channel that is closed at the next wake of the topic. Take it
// before looking at the database, so that no wake falls in between.
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

// wake wakes this process's waiters and has the others told soon.
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

// EventsWake is closed when events may have become due somewhere.
func (db *DB) EventsWake() <-chan struct{} { return db.hub.wait(eventsTopic) }

// WakeEvents says that events are due which this process does not take.
func (db *DB) WakeEvents() { db.hub.wake(eventsTopic) }

// WorkWake is closed when work in a queue of the tenant may have become due.
// Take it before claiming, so that nothing falls in between.
func (db *DB) WorkWake(tenant eventhook.TenantID, queue string) <-chan struct{} {
	return db.hub.wait(workTopic(tenant, queue))
}

// PromiseWake is closed when the promise may have been settled.
func (db *DB) PromiseWake(tenant eventhook.TenantID, id eventhook.PromiseID) <-chan struct{} {
	return db.hub.wait(promiseTopic(tenant, id))
}

// wakeWorkers tells who waits for what the settled events have made.
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

// SendNotifications sends this process's wakes to the other instances until ctx ends, at
// most once per interval: a NOTIFY takes a lock on the whole database, so it
// is not part of the transactions that cause it. What cannot be sent is
// dropped; pollers have their slow poll.
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
				db.log.Warn("cannot tell other instances about new work", "error", err)
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

// ConfigChange names what changed. The zero value means: anything may have.
type ConfigChange struct {
	SourceID       eventhook.SourceID
	TenantID       eventhook.TenantID
	SubscriptionID eventhook.SubscriptionID // of TenantID; the slugs are ""
	TenantSlug     string
	SourceSlug     string // "" when it is about the tenant
}

// Listen hears what other instances and the configuration's triggers say until
// ctx ends, and calls onConfig for each change, one at a time. After every
// connect it reports the zero change, since it may have missed some.
func (db *DB) Listen(ctx context.Context, onConfig func(ConfigChange)) error {
	for ctx.Err() == nil {
		err := db.listenOnce(ctx, onConfig)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the stop broke it
		}
		db.log.Warn("the listening connection broke; trying again", "error", err)
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
			db.log.Warn("a configuration notice is not understood; forgetting everything cached", slog.String("payload", n.Payload))
		}
		onConfig(change)
	}
}

// waitForNotification waits a while; nil, nil means that nothing came and the
// connection was found alive, so that one that died silently is noticed.
func waitForNotification(ctx context.Context, conn *pgx.Conn) (*pgconn.Notification, error) {
	const patience = 15 * time.Second
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	n, err := conn.WaitForNotification(waiting)
	if err == nil || ctx.Err() != nil || waiting.Err() == nil {
		return n, err
	}
	pinging, cancel := context.WithTimeout(ctx, patience)
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
