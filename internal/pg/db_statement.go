package pg

import (
	"encoding/binary"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

// statement is SQL with named parameters. It is prepared on each connection of a pool
// under its name, and columns encode its parameters in PostgreSQL's binary format.
// The most frequent statements carry hundreds of rows: encoding these value by value through
// reflection took a sixth of the time of Accept.
//
// The SQL names each parameter where it is used, with "@":
//
//	var releaseEventsSQL = newStatement("release_events", `
//	UPDATE eventhook.event e SET due_at = @now
//	FROM @events(tenant_id uuid, id uuid, lease_token int8)
//	WHERE e.tenant_id = events.tenant_id AND e.id = events.id AND e.lease_token = events.lease_token`)
//
// @events(…) is a row set. It becomes unnest($2::uuid[], $3::uuid[], $4::int8[]) AS
// events (tenant_id, id, lease_token); a last entry such as "n ordinality" adds WITH
// ORDINALITY. @now is a single moment, $1. A row set or a moment may be used several
// times. Each use of a row set may name other columns of the same rows.
//
// Go code addresses parameters by handles, one for each, which are package variables:
//
//	var (
//		releaseTenant = releaseEventsSQL.uuid("events.tenant_id")
//		releaseID     = releaseEventsSQL.uuid("events.id")
//		releaseToken  = releaseEventsSQL.int8("events.lease_token")
//		releaseNow    = releaseEventsSQL.moment("now")
//	)
//
// and writes rows with them:
//
//	c := newColumns(releaseEventsSQL) // once; columns are kept in a pool
//	c.reset()
//	c.moment(releaseNow, now)
//	for _, e := range events {
//		c.uuid(releaseTenant, e.TenantID)
//		…
//	}
//	conn.ExecPrepared(ctx, releaseEventsSQL.name, …) // with c.values(releaseEventsSQL)
//
// A handle for a parameter that the SQL lacks, or with another type than in the SQL,
// panics when the program starts. A test checks that every parameter has a handle.
//
// Other statements run through pgx. If they have more than five parameters, they use
// pgx.StrictNamedArgs, which has the same "@name" for single values.
type statement struct {
	name   string
	sql    string
	params []*parameter // $1, $2, …
}

type parameter struct {
	name      string // "now", or "events.id" for a column of a row set
	typ       string // of a column's elements, "" for a single value
	oid       uint32 // of a column's elements, 0 for a single value
	first     int    // the position of the first column of the same row set
	hasHandle bool
}

// newStatement returns a statement. It panics if the SQL has a parameter with an unknown
// type or with two types.
func newStatement(name, sql string) *statement {
	s := &statement{name: name}
	return s.parse(sql)
}

// extend returns a statement that has the parameters of s, at the same positions, and
// perhaps more. Handles of s are valid for it, and its columns can run both.
func (s *statement) extend(name, sql string) *statement {
	extended := &statement{name: name, params: slices.Clone(s.params)}
	return extended.parse(sql)
}

var reference = regexp.MustCompile(`@([a-z_]+)(\([^()]*\))?`)

func (s *statement) parse(sql string) *statement {
	s.sql = reference.ReplaceAllStringFunc(sql, func(match string) string {
		name, list, isRowSet := strings.Cut(strings.TrimPrefix(match, "@"), "(")
		if !isRowSet {
			return s.number(name, "")
		}
		return s.unnest(name, strings.Split(strings.TrimSuffix(list, ")"), ","))
	})
	return s
}

// unnest returns the SQL of a row set.
func (s *statement) unnest(set string, entries []string) string {
	const ordinality = "ordinality"
	arrays, names, suffix := []string{}, []string{}, ""
	for _, entry := range entries {
		name, typ, _ := strings.Cut(strings.TrimSpace(entry), " ")
		names = append(names, name)
		if typ == ordinality {
			suffix = " WITH ORDINALITY"
			continue
		}
		if columnTypes[typ] == 0 {
			panic(fmt.Sprintf("statement %s: column %s.%s has the unknown type %q", s.name, set, name, typ))
		}
		arrays = append(arrays, s.number(set+"."+name, typ)+"::"+typ+"[]")
	}
	return "unnest(" + strings.Join(arrays, ", ") + ")" + suffix + " AS " + set + " (" + strings.Join(names, ", ") + ")"
}

// number returns $n of a parameter, which it adds if it is new.
func (s *statement) number(name, typ string) string {
	at := s.find(name)
	if at < 0 {
		at = len(s.params)
		s.params = append(s.params, &parameter{name: name, typ: typ, oid: columnTypes[typ], first: s.firstOfSet(name)})
	}
	if s.params[at].typ != typ {
		panic(fmt.Sprintf("statement %s: parameter %s has two types", s.name, name))
	}
	return "$" + strconv.Itoa(at+1)
}

func (s *statement) find(name string) int {
	return slices.IndexFunc(s.params, func(p *parameter) bool { return p.name == name })
}

// firstOfSet returns the position of the first column of a new column's row set.
func (s *statement) firstOfSet(name string) int {
	set, _, isColumn := strings.Cut(name, ".")
	first := slices.IndexFunc(s.params, func(p *parameter) bool { return strings.HasPrefix(p.name, set+".") })
	if !isColumn || first < 0 {
		return len(s.params)
	}
	return first
}

// Handles of parameters. The type of a handle is that of its values.
type (
	column       struct{ at int }
	uuidColumn   struct{ column }
	textColumn   struct{ column }
	bytesColumn  struct{ column }
	boolColumn   struct{ column }
	int2Column   struct{ column }
	int4Column   struct{ column }
	int8Column   struct{ column }
	timeColumn   struct{ column }
	singleMoment struct{ column }
	singleID     struct{ column }
)

// columnTypes are the types that a column of a row set can have.
var columnTypes = map[string]uint32{
	"uuid": pgtype.UUIDOID, "text": pgtype.TextOID, "bytea": pgtype.ByteaOID, "bool": pgtype.BoolOID,
	"int2": pgtype.Int2OID, "int4": pgtype.Int4OID, "int8": pgtype.Int8OID, "timestamptz": pgtype.TimestamptzOID,
}

func (s *statement) uuid(name string) uuidColumn     { return uuidColumn{s.handle(name, "uuid")} }
func (s *statement) text(name string) textColumn     { return textColumn{s.handle(name, "text")} }
func (s *statement) bytes(name string) bytesColumn   { return bytesColumn{s.handle(name, "bytea")} }
func (s *statement) bool(name string) boolColumn     { return boolColumn{s.handle(name, "bool")} }
func (s *statement) int2(name string) int2Column     { return int2Column{s.handle(name, "int2")} }
func (s *statement) int4(name string) int4Column     { return int4Column{s.handle(name, "int4")} }
func (s *statement) int8(name string) int8Column     { return int8Column{s.handle(name, "int8")} }
func (s *statement) time(name string) timeColumn     { return timeColumn{s.handle(name, "timestamptz")} }
func (s *statement) moment(name string) singleMoment { return singleMoment{s.handle(name, "")} }
func (s *statement) id(name string) singleID         { return singleID{s.handle(name, "")} }

func (s *statement) handle(name, typ string) column {
	at := s.find(name)
	if at < 0 || s.params[at].typ != typ {
		panic(fmt.Sprintf("statement %s has no parameter %s of the type %q", s.name, name, typ))
	}
	s.params[at].hasHandle = true
	return column{at}
}

// columns are the values of a statement's parameters, in memory that is reused. They
// are not safe for concurrent use.
type columns struct {
	of      *statement
	arrays  []array
	formats []int16
	encoded [][]byte
}

// array is a column of a row set as a PostgreSQL array, or a single value.
type array struct {
	buf  []byte
	rows uint32
}

// newColumns returns columns for a statement and for the one that it extends. They
// must be reset before the first row.
func newColumns(s *statement) *columns {
	n := len(s.params)
	c := &columns{of: s, arrays: make([]array, n), formats: make([]int16, n), encoded: make([][]byte, n)}
	for i := range c.formats {
		c.formats[i] = 1 // binary
	}
	return c
}

// reset removes all rows and single values. It frees buffers that an unusually large batch
// has grown.
func (c *columns) reset() {
	const maxBuffer = 4 << 20
	for i := range c.arrays {
		a := &c.arrays[i]
		if cap(a.buf) > maxBuffer {
			a.buf = nil
		}
		a.buf, a.rows = a.buf[:0], 0
		if oid := c.of.params[i].oid; oid != 0 {
			b := binary.BigEndian.AppendUint32(a.buf, 1) // dimensions
			b = binary.BigEndian.AppendUint32(b, 1)      // may hold NULL
			b = binary.BigEndian.AppendUint32(b, oid)
			b = binary.BigEndian.AppendUint32(b, 0)     // length, set by values
			a.buf = binary.BigEndian.AppendUint32(b, 1) // lower bound
		}
	}
}

// values returns the parameters of s, and their formats, until the next reset. s is
// the statement of the columns or one that it extends. values panics if a column has
// another number of rows than the first column of its row set, or if a single value is not set.
func (c *columns) values(s *statement) (params [][]byte, formats []int16) {
	for i, p := range s.params {
		a := &c.arrays[i]
		if a.rows != c.arrays[p.first].rows || p.oid == 0 && len(a.buf) == 0 {
			panic(fmt.Sprintf("statement %s: parameter %s lacks values", s.name, p.name))
		}
		if p.oid != 0 {
			binary.BigEndian.PutUint32(a.buf[12:], a.rows)
		}
		c.encoded[i] = a.buf
	}
	return c.encoded[:len(s.params)], c.formats[:len(s.params)]
}

// isEmpty reports whether no row set has rows.
func (c *columns) isEmpty() bool {
	return !slices.ContainsFunc(c.arrays, func(a array) bool { return a.rows > 0 })
}

// length begins a value of n bytes; n is -1 for NULL.
func (c *columns) length(h column, n int) *array {
	a := &c.arrays[h.at]
	a.rows++
	a.buf = binary.BigEndian.AppendUint32(a.buf, uint32(n))
	return a
}

func (c *columns) null(h column) { c.length(h, -1) }

// uuid adds an id. A zero id is NULL.
func (c *columns) uuid(h uuidColumn, v [16]byte) {
	if v == ([16]byte{}) {
		c.null(h.column)
		return
	}
	a := c.length(h.column, 16)
	a.buf = append(a.buf, v[:]...)
}

func (c *columns) text(h textColumn, v string) {
	a := c.length(h.column, len(v))
	a.buf = append(a.buf, v...)
}

// optionalText adds a text. An empty text is NULL.
func (c *columns) optionalText(h textColumn, v string) {
	if v == "" {
		c.null(h.column)
		return
	}
	c.text(h, v)
}

// appendText adds the text that write appends.
func (c *columns) appendText(h textColumn, write func([]byte) []byte) {
	a := c.length(h.column, 0)
	start := len(a.buf)
	a.buf = write(a.buf)
	binary.BigEndian.PutUint32(a.buf[start-4:], uint32(len(a.buf)-start))
}

func (c *columns) bytes(h bytesColumn, v []byte) {
	a := c.length(h.column, len(v))
	a.buf = append(a.buf, v...)
}

// optionalBytes adds bytes. Nil is NULL.
func (c *columns) optionalBytes(h bytesColumn, v []byte) {
	if v == nil {
		c.null(h.column)
		return
	}
	c.bytes(h, v)
}

func (c *columns) bool(h boolColumn, v bool) {
	a := c.length(h.column, 1)
	if v {
		a.buf = append(a.buf, 1)
	} else {
		a.buf = append(a.buf, 0)
	}
}

func (c *columns) int2(h int2Column, v int) {
	a := c.length(h.column, 2)
	a.buf = binary.BigEndian.AppendUint16(a.buf, uint16(v))
}

func (c *columns) int4(h int4Column, v int) {
	a := c.length(h.column, 4)
	a.buf = binary.BigEndian.AppendUint32(a.buf, uint32(v))
}

func (c *columns) int8(h int8Column, v int64) {
	a := c.length(h.column, 8)
	a.buf = binary.BigEndian.AppendUint64(a.buf, uint64(v))
}

// time adds a moment. The zero time is NULL.
func (c *columns) time(h timeColumn, v time.Time) {
	if v.IsZero() {
		c.null(h.column)
		return
	}
	a := c.length(h.column, 8)
	a.buf = appendMoment(a.buf, v)
}

// moment sets a single moment.
func (c *columns) moment(h singleMoment, v time.Time) {
	a := &c.arrays[h.at]
	a.buf = appendMoment(a.buf[:0], v)
}

// id sets a single id.
func (c *columns) id(h singleID, v [16]byte) {
	a := &c.arrays[h.at]
	a.buf = append(a.buf[:0], v[:]...)
}

// appendMoment appends a timestamptz: microseconds since 2000-01-01.
func appendMoment(b []byte, v time.Time) []byte {
	const y2k = 946_684_800_000_000
	return binary.BigEndian.AppendUint64(b, uint64(v.UnixMicro()-y2k))
}
