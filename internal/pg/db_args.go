package pg

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/eventhook/eventhook"
)

// columns builds the parameters of a statement that unnests parallel arrays,
// in PostgreSQL's binary format and in memory that is reused: the hot
// statements carry hundreds of rows, and encoding them value by value through
// reflection was a sixth of the accept path's time.
type columns struct {
	cols    []column
	formats []int16
	params  [][]byte
}

type column struct {
	buf  []byte
	oid  uint32
	rows uint32
}

// Element types of the arrays.
const (
	uuidOID  = pgtype.UUIDOID
	textOID  = pgtype.TextOID
	byteaOID = pgtype.ByteaOID
	boolOID  = pgtype.BoolOID
	int2OID  = pgtype.Int2OID
	int4OID  = pgtype.Int4OID
	int8OID  = pgtype.Int8OID
	timeOID  = pgtype.TimestamptzOID
)

// y2k is where PostgreSQL begins to count microseconds: 2000-01-01.
const y2k = 946_684_800_000_000

func newColumns(oids ...uint32) *columns {
	c := &columns{cols: make([]column, len(oids)), formats: make([]int16, len(oids)), params: make([][]byte, len(oids))}
	for i, oid := range oids {
		c.cols[i].oid = oid
		c.formats[i] = 1
	}
	return c
}

// reset empties the arrays. A buffer that one huge batch has grown is let go.
func (c *columns) reset() {
	const keep = 4 << 20
	for i := range c.cols {
		col := &c.cols[i]
		if cap(col.buf) > keep {
			col.buf = nil
		}
		b := binary.BigEndian.AppendUint32(col.buf[:0], 1) // dimensions
		b = binary.BigEndian.AppendUint32(b, 1)            // may hold NULL
		b = binary.BigEndian.AppendUint32(b, col.oid)
		b = binary.BigEndian.AppendUint32(b, 0)       // length, set by encoded
		col.buf = binary.BigEndian.AppendUint32(b, 1) // lower bound
		col.rows = 0
	}
}

// encoded is the parameters; they are valid until the next reset.
func (c *columns) encoded() [][]byte {
	for i := range c.cols {
		binary.BigEndian.PutUint32(c.cols[i].buf[12:], c.cols[i].rows)
		c.params[i] = c.cols[i].buf
	}
	return c.params
}

func (c *columns) rows() int { return int(c.cols[0].rows) }

func (c *columns) length(i, n int) *column {
	col := &c.cols[i]
	col.rows++
	col.buf = binary.BigEndian.AppendUint32(col.buf, uint32(n))
	return col
}

func (c *columns) null(i int) { c.length(i, -1) }

func (c *columns) uuid(i int, v [16]byte) {
	if v == ([16]byte{}) {
		c.null(i)
		return
	}
	col := c.length(i, 16)
	col.buf = append(col.buf, v[:]...)
}

func (c *columns) text(i int, v string) {
	col := c.length(i, len(v))
	col.buf = append(col.buf, v...)
}

// optional is text whose empty value is NULL.
func (c *columns) optional(i int, v string) {
	if v == "" {
		c.null(i)
		return
	}
	c.text(i, v)
}

func (c *columns) bytes(i int, v []byte) {
	col := c.length(i, len(v))
	col.buf = append(col.buf, v...)
}

// optionalBytes is bytes whose nil is NULL.
func (c *columns) optionalBytes(i int, v []byte) {
	if v == nil {
		c.null(i)
		return
	}
	c.bytes(i, v)
}

// append adds a text or bytes that write appends.
func (c *columns) append(i int, write func([]byte) []byte) {
	col := c.length(i, 0)
	from := len(col.buf)
	col.buf = write(col.buf)
	binary.BigEndian.PutUint32(col.buf[from-4:], uint32(len(col.buf)-from))
}

func (c *columns) bool(i int, v bool) {
	col := c.length(i, 1)
	if v {
		col.buf = append(col.buf, 1)
	} else {
		col.buf = append(col.buf, 0)
	}
}

func (c *columns) int2(i, v int) {
	col := c.length(i, 2)
	col.buf = binary.BigEndian.AppendUint16(col.buf, uint16(v))
}

func (c *columns) int4(i, v int) {
	col := c.length(i, 4)
	col.buf = binary.BigEndian.AppendUint32(col.buf, uint32(v))
}

func (c *columns) int8(i int, v int64) {
	col := c.length(i, 8)
	col.buf = binary.BigEndian.AppendUint64(col.buf, uint64(v))
}

// time is a moment whose zero value is NULL.
func (c *columns) time(i int, v time.Time) {
	if v.IsZero() {
		c.null(i)
		return
	}
	c.int8(i, v.UnixMicro()-y2k)
}

// scalarTime is one moment in PostgreSQL's binary format.
func scalarTime(v time.Time) []byte {
	return binary.BigEndian.AppendUint64(nil, uint64(v.UnixMicro()-y2k))
}

// uuidArg is an id as a parameter; a zero id is NULL.
func uuidArg[K any](id eventhook.ID[K]) any {
	if id.IsZero() {
		return nil
	}
	return [16]byte(id)
}

// beforeArg is the cursor of a list that goes down the ids: one that is zero is
// before nothing, so that a bound is always there for the index.
func beforeArg[K any](id eventhook.ID[K]) any {
	if id.IsZero() {
		for i := range id {
			id[i] = 0xff
		}
	}
	return [16]byte(id)
}

// idsInOrder are n new ids in their order, though all are of one moment.
func idsInOrder[K any](at time.Time, n int) []eventhook.ID[K] {
	ids := make([]eventhook.ID[K], n)
	for i := range ids {
		ids[i] = eventhook.NewID[K](at)
	}
	slices.SortFunc(ids, func(a, b eventhook.ID[K]) int { return bytes.Compare(a[:], b[:]) })
	return ids
}

func uuids[K any](ids []eventhook.ID[K]) [][16]byte {
	raw := make([][16]byte, len(ids))
	for i, id := range ids {
		raw[i] = id
	}
	return raw
}

// textArg is text as a parameter; "" is NULL.
func textArg(s string) any {
	if s == "" {
		return nil
	}
	return eventhook.SanitizeText(s)
}

// jsonArg is JSON as a parameter, stored as it is but for bytes that are not
// UTF-8, which no parser of ours refuses inside a string; none is NULL.
func jsonArg(raw json.RawMessage) any {
	if len(raw) == 0 {
		return nil
	}
	return strings.ToValidUTF8(string(raw), "\uFFFD")
}

// textElement is textArg as an element of an array.
func textElement(s string) *string {
	if s == "" {
		return nil
	}
	return new(eventhook.SanitizeText(s))
}

// jsonElement is jsonArg as an element of an array.
func jsonElement(raw json.RawMessage) *string {
	if len(raw) == 0 {
		return nil
	}
	return new(strings.ToValidUTF8(string(raw), "\uFFFD"))
}

// notValid is what is said of a request beside its faults, whose locations are
// those in the request.
const notValid = "The request is not valid."

func invalid(location, message string) error {
	return eventhook.Faults{{Location: location, Message: message}}.Err(notValid)
}

// notFound names the thing that no row was found for.
func notFound(err error, thing string) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return eventhook.NotFound(thing)
	}
	return err
}

// collectPage collects rows up to the one with which they have more than
// eventhook.MaxPageBytes.
func collectPage[T interface{ Bytes() int }](rows pgx.Rows, scan pgx.RowToFunc[T]) (list []T, err error) {
	defer rows.Close()
	for size := 0; size <= eventhook.MaxPageBytes && rows.Next(); {
		one, err := scan(rows)
		if err != nil {
			return nil, err
		}
		list = append(list, one)
		size += one.Bytes()
	}
	rows.Close() // reads on, and keeps nothing
	return list, rows.Err()
}
