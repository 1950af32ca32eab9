package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eventhook/eventhook"
)

// How large bodies may be. Operations with larger ones say so: see operation.
const (
	smallBody  = 64 << 10  // unless the operation says more
	emptyBody  = 4 << 10   // of an operation without a body, for spaces
	configBody = 512 << 10 // of a configuration: keys, filters, scripts
	errorBody  = 128 << 10 // of a text of 10 000 characters, escaped
	resultBody = 1 << 20   // of a result that is passed on as it is

	// smallRequest is the cost of a small body.
	smallRequest = smallBody * shapeWeight
)

// Bytes of memory that a byte of a body takes, decoded: measured by
// TestBodiesWeighWhatTheyAreSaidTo.
const (
	shapeWeight = 48 // JSON that is read value by value
	rawWeight   = 8  // JSON that is passed on as it is
)

// bodyCost is the memory for n bytes of a body, of which the first shape ones are
// read value by value.
func bodyCost(n, shape int64) int64 {
	return min(n, shape)*shapeWeight + max(n-shape, 0)*rawWeight
}

// Bodies must come at this rate, after a while.
const (
	bodyTimeout = 30 * time.Second // for a whole body
	bodyGrace   = 5 * time.Second
	bodyRate    = 32 << 10 // bytes per second
)

// bodyDeadline is how long after the begin of a body more than received bytes
// must have come.
func bodyDeadline(received int64) time.Duration {
	return min(bodyGrace+time.Duration(received)*time.Second/bodyRate, bodyTimeout)
}

// body is a request's body that is read within the budgets: bytes are reserved
// as they come, and a body beyond smallBody waits for a turn among its tenant's.
type body struct {
	io.ReadCloser
	hold         *hold
	ctx          context.Context
	setDeadline  func(time.Time) error
	limit, shape int64
	announced    int64 // -1: unknown
	began        time.Time
	received     int64
	reserved     int64 // bytes of the body
	isLarge      bool  // it has a slot of its tenant's
	err          error
}

// meterBody has the body of a request read within the budgets.
func (h *hold) meterBody(ctx huma.Context) error {
	r, op := requestOf(ctx), ctx.Operation()
	if r.ContentLength == 0 || r.Body == nil {
		return nil
	}
	limit, shape := int64(emptyBody), int64(emptyBody)
	if op.RequestBody != nil {
		limit = op.MaxBodyBytes - 1
		shape = shapeOf(op)
	}
	if r.ContentLength > limit {
		return tooLarge("The body", limit)
	}
	r.Body = &body{ReadCloser: r.Body, hold: h, ctx: ctx.Context(), setDeadline: ctx.SetReadDeadline, limit: limit, shape: shape,
		announced: r.ContentLength, began: time.Now()}
	return nil
}

// tooLarge is the answer to a body, or a part of it, beyond a limit.
func tooLarge(part string, limit int64) error {
	status := http.StatusRequestEntityTooLarge
	return &problem{Title: http.StatusText(status), Status: status, Detail: fmt.Sprintf("%s has more than %d bytes, which is the limit of this operation.", part, limit)}
}

// Read implements io.Reader. Its errors are answers: *problem or *eventhook.Error.
func (b *body) Read(p []byte) (int, error) {
	if b.err == nil && b.received == b.reserved {
		b.err = b.grow()
	}
	if b.err != nil {
		return 0, b.err
	}
	if b.received > 0 {
		_ = b.setDeadline(b.began.Add(bodyDeadline(b.received))) // a recorder has none
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.reserved-b.received)])
	if b.received += int64(n); b.received > b.limit {
		b.err = tooLarge("The body", b.limit)
		return 0, b.err
	}
	if err != nil { // io.EOF most of all: a long poll must not end with the body's deadline
		_ = b.setDeadline(time.Time{})
	}
	return n, err
}

// grow reserves memory for more of the body.
func (b *body) grow() error {
	const step = 32 << 10
	next := min(max(2*b.reserved, step), b.limit+1)
	if b.announced >= 0 {
		next = min(next, b.announced+1) // one more, to see the end
	}
	if next > smallBody+1 && !b.isLarge {
		if err := b.hold.inTurn(b.ctx, large); err != nil {
			return b.tell(err)
		}
		b.isLarge = true
	}
	if err := b.hold.take(bodyCost(next, b.shape) - bodyCost(b.reserved, b.shape)); err != nil {
		return b.tell(err)
	}
	b.reserved = next
	return nil
}

// tell sets the header that the framework does not set for an error of a body.
func (b *body) tell(err error) error {
	if e, ok := errors.AsType[*eventhook.Error](err); ok && e.RetryAfter > 0 {
		b.hold.header.Set("Retry-After", strconv.Itoa(retrySeconds(e)))
	}
	return err
}

// shapeOf is how many bytes of an operation's body are read value by value.
func shapeOf(op *huma.Operation) int64 {
	n, _ := op.Metadata[shapeKey].(int64)
	return n
}

func (o operation) shapeLimit() int64 { return cmp.Or(o.maxShape, o.bodyLimit()) }

func (o operation) bodyLimit() int64 { return cmp.Or(o.maxBody, smallBody) }
