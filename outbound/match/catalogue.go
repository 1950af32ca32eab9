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
	"github.com/eventhook/eventhook/internal/schema"
	"github.com/eventhook/eventhook/internal/snapshot"
)

// EventTypes reads what a tenant's catalogue says about an event type, or
// KindNotFound.
type EventTypes interface {
	EventType(ctx context.Context, tenant eventhook.TenantID, name string) (eventhook.EventType, error)
}

// CatalogueObserver hears of each event that a catalogue does not know as it
// is, by one of the Mismatches.
type CatalogueObserver interface {
	Mismatch(kind string)
}

// What is heard of events.
const (
	MismatchUnknown   = "unknown"   // the catalogue has no entry for its type
	MismatchShape     = "misshapen" // its data does not fit the schema
	MismatchUnchecked = "unchecked" // that would take too much work
)

// Mismatches are all of them.
var Mismatches = []string{MismatchUnknown, MismatchShape, MismatchUnchecked}

// Catalogue holds published events against what their tenants say about their
// types. It refuses nothing: what it finds is counted, and told now and then. A
// nil one finds nothing. Safe for concurrent use.
type Catalogue struct {
	entries  *snapshot.Cache[entryKey, *catalogueEntry]
	told     *lru.Cache[entryKey, time.Time]
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
	schema   *schema.Schema // nil for none, or one that cannot be used
	broken   bool           // it cannot be used
	bytes    int
	// restUntil is when a schema that took too much work is tried again, in Unix
	// seconds.
	restUntil atomic.Int64
}

const (
	entryAge  = 30 * time.Second // nobody tells of changes
	tellEvery = time.Hour        // about one type of a tenant's
	restFor   = time.Minute      // for a schema that takes too much work
)

// NewCatalogue makes a cache of what is said about up to size event types.
func NewCatalogue(size int, from EventTypes, observer CatalogueObserver, log *slog.Logger, now func() time.Time) *Catalogue {
	told, err := lru.New[entryKey, time.Time](size)
	if err != nil {
		panic(err) // the size is a positive number of ours
	}
	load := func(ctx context.Context, k entryKey) (*catalogueEntry, error) {
		t, err := from.EventType(ctx, k.tenant, k.name)
		if err != nil {
			return nil, err
		}
		return newCatalogueEntry(t), nil
	}
	return &Catalogue{entries: snapshot.NewWeighed(size, (*catalogueEntry).size, entryAge, now, load), told: told, observer: observer, log: log, now: now}
}

// newCatalogueEntry compiles what is said about a type. If a schema cannot be
// compiled, which the API prevents, its events count as unchecked.
func newCatalogueEntry(t eventhook.EventType) (entry *catalogueEntry) {
	entry = &catalogueEntry{category: t.Category, bytes: len(t.Schema)}
	if len(t.Schema) == 0 {
		return entry
	}
	defer func() {
		if recover() != nil {
			entry.schema, entry.broken = nil, true
		}
	}()
	s, err := schema.Compile(t.Schema)
	entry.schema, entry.broken = s, err != nil
	return entry
}

// size is the memory that an entry takes, in entries of usual size.
func (c *catalogueEntry) size() int {
	const usualSchema = 512
	return 1 + c.bytes/usualSchema
}

// Check returns the category of a published event's type, and what is wrong
// with the event, for people: "" if nothing is, or if that cannot be told. It
// quotes nothing of the data. The meter counts the work. Once it has stopped,
// Check finds nothing wrong, and counts nothing: see Unchecked.
func (c *Catalogue) Check(ctx context.Context, m *meter.Meter, e *eventhook.Event) (category, fault string) {
	if c == nil {
		return "", ""
	}
	if t, ours := eventhook.FindSystemEventType(e.EventType); ours {
		return t.Category, ""
	}
	key := entryKey{e.TenantID, e.EventType}
	entry, err := c.entries.Get(ctx, key)
	return c.check(m, e, key, entry, err)
}

// CheckNow does as Check with what is in memory. It reports false if that is not
// enough.
func (c *Catalogue) CheckNow(m *meter.Meter, e *eventhook.Event) (category string, isKnown bool) {
	if c == nil {
		return "", true
	}
	if t, ours := eventhook.FindSystemEventType(e.EventType); ours {
		return t.Category, true
	}
	key := entryKey{e.TenantID, e.EventType}
	entry, err := c.entries.Peek(key)
	if errors.Is(err, snapshot.ErrNotInMemory) {
		return "", false
	}
	category, _ = c.check(m, e, key, entry, err)
	return category, true
}

// check holds an event against the entry of its type, or why there is none.
func (c *Catalogue) check(m *meter.Meter, e *eventhook.Event, key entryKey, entry *catalogueEntry, err error) (category, fault string) {
	switch {
	case errors.Is(err, eventhook.ErrNotFound):
		return "", c.misfit(key, MismatchUnknown, "the catalogue has no entry for its type")
	case err != nil:
		return "", "" // the store will say so, if it is about to fail, too
	case entry.broken:
		return entry.category, c.misfit(key, MismatchUnchecked, "its schema cannot be used")
	case entry.schema == nil:
		return entry.category, ""
	}
	return entry.category, c.hold(m, key, entry, e.Body)
}

// Unchecked notes that an event takes too much work to be checked.
func (c *Catalogue) Unchecked(e *eventhook.Event) {
	if c != nil {
		c.misfit(entryKey{e.TenantID, e.EventType}, MismatchUnchecked, schema.ErrTooMuch.Error())
	}
}

// hold holds data against an entry's schema.
func (c *Catalogue) hold(m *meter.Meter, key entryKey, entry *catalogueEntry, data []byte) (fault string) {
	now := c.now()
	if now.Unix() < entry.restUntil.Load() {
		return c.misfit(key, MismatchUnchecked, schema.ErrTooMuch.Error())
	}
	fault, err := entry.schema.Validate(m, data)
	if m.Err() != nil {
		return ""
	}
	if errors.Is(err, schema.ErrTooMuch) {
		entry.restUntil.Store(now.Add(restFor).Unix())
	}
	switch {
	case err != nil:
		return c.misfit(key, MismatchUnchecked, err.Error())
	case fault != "":
		return c.misfit(key, MismatchShape, fault)
	}
	return ""
}

// misfit counts, and tells unless that was told of the type not long ago.
func (c *Catalogue) misfit(key entryKey, kind, fault string) string {
	c.observer.Mismatch(kind)
	now := c.now()
	if at, told := c.told.Get(key); !told || now.Sub(at) >= tellEvery {
		c.told.Add(key, now)
		c.log.Info("a published event is not as the catalogue says; it is delivered all the same", "tenant", key.tenant, "type", key.name, "kind", kind, "fault", fault)
	}
	return fault
}

// Invalidate drops what is said about one type: it has changed.
func (c *Catalogue) Invalidate(tenant eventhook.TenantID, name string) {
	c.entries.Invalidate(entryKey{tenant, name})
}
