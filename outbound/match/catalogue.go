package match

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/meter"
	"github.com/eventhook/eventhook/internal/panics"
	"github.com/eventhook/eventhook/internal/schema"
	"github.com/eventhook/eventhook/internal/snapshot"
)

// EventTypes reads the catalogue of tenants.
type EventTypes interface {
	// EventType returns the catalogue entry of an event type, or an error of
	// KindNotFound.
	EventType(ctx context.Context, tenant eventhook.TenantID, name string) (eventhook.EventType, error)
}

// CatalogueObserver counts the events that do not match their catalogue. kind is one of
// Mismatches.
type CatalogueObserver interface {
	Mismatch(kind string)
}

// The kinds of mismatches.
const (
	MismatchUnknown   = "unknown"   // the catalogue has no entry for the event's type
	MismatchShape     = "misshapen" // the event's data does not match the schema
	MismatchUnchecked = "unchecked" // the check would take too many steps, or the schema cannot be used
)

// mismatchTexts has the text of the log for each kind.
var mismatchTexts = map[string]string{
	MismatchUnknown:   "a published event has an unknown type; it is delivered",
	MismatchShape:     "a published event does not match its schema; it is delivered",
	MismatchUnchecked: "a published event could not be checked against its schema; it is delivered",
}

// Mismatches lists all kinds.
var Mismatches = []string{MismatchUnknown, MismatchShape, MismatchUnchecked}

// Catalogue checks published events against the catalogue entries of their types. It never
// rejects an event: mismatches are counted, and logged once an hour per type. A nil
// Catalogue checks nothing. Safe for concurrent use.
type Catalogue struct {
	entries  *snapshot.Cache[entryKey, *catalogueEntry]
	logged   *lru.Cache[entryKey, time.Time]
	observer CatalogueObserver
	log      *slog.Logger
	now      func() time.Time
}

type entryKey struct {
	tenant eventhook.TenantID
	name   string
}

type catalogueEntry struct {
	category string
	schema   *schema.Schema // nil: the entry has no usable schema
	broken   bool           // the schema cannot be used
	bytes    int
	// pausedUntil is when a schema that took too many steps is used again, in Unix
	// seconds.
	pausedUntil atomic.Int64
}

const (
	entryAge    = 30 * time.Second // there is no change notification of entries
	logInterval = time.Hour        // per event type of a tenant
	pauseFor    = time.Minute      // for a schema that takes too many steps
)

// NewCatalogue returns a Catalogue that caches up to size event types.
func NewCatalogue(size int, from EventTypes, observer CatalogueObserver, log *slog.Logger, now func() time.Time) *Catalogue {
	logged, err := lru.New[entryKey, time.Time](size)
	if err != nil {
		panic(err) // the configuration requires a positive size
	}
	load := func(ctx context.Context, k entryKey) (*catalogueEntry, error) {
		t, err := from.EventType(ctx, k.tenant, k.name)
		if err != nil {
			return nil, err
		}
		return newCatalogueEntry(t), nil
	}
	return &Catalogue{entries: snapshot.NewWeighed(size, (*catalogueEntry).size, entryAge, now, load), logged: logged, observer: observer, log: log, now: now}
}

// newCatalogueEntry compiles a catalogue entry. The API prevents schemas that cannot be
// compiled. If there is one nevertheless, its events count as unchecked.
func newCatalogueEntry(t eventhook.EventType) (entry *catalogueEntry) {
	entry = &catalogueEntry{category: t.Category, bytes: len(t.Schema)}
	if len(t.Schema) == 0 {
		return entry
	}
	defer func() {
		if recover() != nil {
			panics.Count(panics.Schema)
			entry.schema, entry.broken = nil, true
		}
	}()
	s, err := schema.Compile(t.Schema)
	entry.schema, entry.broken = s, err != nil
	return entry
}

// size returns the weight of an entry in the cache; an entry of typical size weighs
// 1.
func (c *catalogueEntry) size() int {
	const typicalSchemaBytes = 512
	return 1 + c.bytes/typicalSchemaBytes
}

// Check returns the category of a published event's type, and a description of the
// mismatch for users. fault is "" if the event matches, if the entry cannot be read,
// or if the meter reaches its limit. If the schema cannot be used or the check takes
// too many steps, fault says so. It never quotes the data. The meter counts the
// work. If the meter reaches its limit, Check counts no mismatch; the caller calls
// Unchecked.
func (c *Catalogue) Check(ctx context.Context, m *meter.Meter, e *eventhook.Event) (category, fault string) {
	if c == nil {
		return "", ""
	}
	if t, isSystem := eventhook.FindSystemEventType(e.EventType); isSystem {
		return t.Category, ""
	}
	entry, err := c.entries.Get(ctx, keyOf(e))
	return c.check(m, e, entry, err)
}

// CheckNow is Check without reading the database. It returns false if the entry is not in
// memory.
func (c *Catalogue) CheckNow(m *meter.Meter, e *eventhook.Event) (category string, isKnown bool) {
	if c == nil {
		return "", true
	}
	if t, isSystem := eventhook.FindSystemEventType(e.EventType); isSystem {
		return t.Category, true
	}
	entry, err := c.entries.Peek(keyOf(e))
	if errors.Is(err, snapshot.ErrNotInMemory) {
		return "", false
	}
	category, _ = c.check(m, e, entry, err)
	return category, true
}

// check checks an event against the entry of its type. err is the error of reading the
// entry.
func (c *Catalogue) check(m *meter.Meter, e *eventhook.Event, entry *catalogueEntry, err error) (category, fault string) {
	switch {
	case errors.Is(err, eventhook.ErrNotFound):
		return "", c.mismatch(e, MismatchUnknown, "the catalogue has no entry for the event type")
	case err != nil:
		return "", "" // if the database is down, storing the event fails and reports it
	case entry.broken:
		return entry.category, c.mismatch(e, MismatchUnchecked, "the schema of the event type cannot be used")
	case entry.schema == nil:
		return entry.category, ""
	}
	return entry.category, c.checkSchema(m, e, entry)
}

func keyOf(e *eventhook.Event) entryKey { return entryKey{e.TenantID, e.EventType} }

// Unchecked counts an event whose check takes too many steps.
func (c *Catalogue) Unchecked(e *eventhook.Event) {
	if c != nil {
		c.mismatch(e, MismatchUnchecked, schema.ErrTooMuch.Error())
	}
}

// checkSchema checks the data of an event against an entry's schema.
func (c *Catalogue) checkSchema(m *meter.Meter, e *eventhook.Event, entry *catalogueEntry) (fault string) {
	now := c.now()
	if now.Unix() < entry.pausedUntil.Load() {
		return c.mismatch(e, MismatchUnchecked, schema.ErrTooMuch.Error())
	}
	fault, err := entry.schema.Validate(m, e.Body)
	if m.Err() != nil {
		return ""
	}
	if errors.Is(err, schema.ErrTooMuch) {
		entry.pausedUntil.Store(now.Add(pauseFor).Unix())
	}
	switch {
	case err != nil:
		return c.mismatch(e, MismatchUnchecked, err.Error())
	case fault != "":
		return c.mismatch(e, MismatchShape, fault)
	}
	return ""
}

// mismatch counts a mismatch. It logs the fault, unless a fault of the type was logged
// within the last logInterval.
func (c *Catalogue) mismatch(e *eventhook.Event, kind, fault string) string {
	c.observer.Mismatch(kind)
	now, key := c.now(), keyOf(e)
	if at, ok := c.logged.Get(key); !ok || now.Sub(at) >= logInterval {
		c.logged.Add(key, now)
		c.log.Info(mismatchTexts[kind], "tenant", key.tenant, "type", key.name, "fault", fault, "event", e.ID, "trace_id", e.Trace())
	}
	return fault
}

// Invalidate evicts the entry of an event type, because it has changed.
func (c *Catalogue) Invalidate(tenant eventhook.TenantID, name string) {
	c.entries.Invalidate(entryKey{tenant, name})
}
