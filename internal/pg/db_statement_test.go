package pg

import (
	"slices"
	"testing"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/effects"
)

func TestStatementNumbersItsParameters(t *testing.T) {
	s := newStatement("s", `UPDATE t SET a = r.a, at = @now FROM @r(id uuid, a text, n ordinality) WHERE r.id = t.id AND t.at < @now AND EXISTS (SELECT FROM @r(id uuid))`)
	same(t, "SQL", s.sql, `UPDATE t SET a = r.a, at = $1 FROM unnest($2::uuid[], $3::text[]) WITH ORDINALITY AS r (id, a, n) WHERE r.id = t.id AND t.at < $1`+
		` AND EXISTS (SELECT FROM unnest($2::uuid[]) AS r (id))`)
	more := s.extend("more", `SELECT FROM @r(b int4, id uuid)`)
	same(t, "SQL of an extension", more.sql, `SELECT FROM unnest($4::int4[], $2::uuid[]) AS r (b, id)`)
	same(t, "positions", []int{s.moment("now").at, more.uuid("r.id").at, more.int4("r.b").at}, []int{0, 1, 3})
}

func TestStatementRefusesMistakes(t *testing.T) {
	s := newStatement("s", `SELECT @now FROM @r(id uuid, a text)`)
	id, a, now := s.uuid("r.id"), s.text("r.a"), s.moment("now")
	for claim, mistake := range map[string]func(){
		"an unknown type":              func() { newStatement("x", `SELECT FROM @r(id number)`) },
		"a column with two types":      func() { newStatement("x", `SELECT FROM @r(id uuid), @r(id text)`) },
		"a handle without a parameter": func() { s.uuid("r.key") },
		"a handle of another type":     func() { s.text("r.id") },
		"a handle of a column as a moment": func() {
			s.moment("r.id")
		},
		"a row without a value": func() {
			c := newColumns(s)
			c.reset()
			c.moment(now, noon)
			c.uuid(id, [16]byte{1})
			c.values(s)
		},
		"a moment that is not set": func() {
			c := newColumns(s)
			c.reset()
			c.uuid(id, [16]byte{1})
			c.text(a, "a")
			c.values(s)
		},
	} {
		t.Run(claim, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("got no panic")
				}
			}()
			mistake()
		})
	}
}

// A parameter without a handle would be sent without values.
func TestEveryParameterHasAHandle(t *testing.T) {
	for _, s := range slices.Concat(acceptStatements, workStatements) {
		for _, p := range s.params {
			if !p.hasHandle {
				t.Errorf("statement %s: parameter %s has no handle", s.name, p.name)
			}
		}
	}
}

// BenchmarkEncodeEvents encodes a batch of 100 events for Accept, without a database.
func BenchmarkEncodeEvents(b *testing.B) {
	batch := make([]*effects.Arrival, 100)
	for i := range batch {
		e := &eventhook.Event{ID: eventhook.NewID[eventhook.Event](noon), TenantID: eventhook.NewID[eventhook.Tenant](noon),
			SourceID: eventhook.NewID[eventhook.Source](noon), EventType: "order.created", ContentType: "application/json",
			SourceIP: "192.0.2.1", RequestID: "r-1", Origin: "webhook", BodySize: 1024}
		e.Headers, e.Body = make([]byte, 200), make([]byte, 1024)
		batch[i] = &effects.Arrival{Event: e}
	}
	c := newAcceptColumns(eventhook.InstanceID{})
	b.ReportAllocs()
	for b.Loop() {
		c.encodeEvents(batch, noon)
		c.events.moment(acceptNow, noon)
		c.events.moment(acceptExpires, noon)
		c.events.values(acceptSQL)
	}
}
