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
)

// Bytes of memory that a request takes, at most: see
// TestBodiesWeighWhatTheyAreSaidTo.
const (
	requestMemory        = 64 << 10 // without its body
	memoryPerByte        = 12       // for each byte of a body
	memoryPerDecodedByte = 120      // and for each of the first smallBody bytes, which may be decoded value by value
	// memoryPerListByte is for documents with lists, which may have a fault in each
	// element of two bytes; maxValues bounds these.
	memoryPerListByte = 600
)

// bodyCost is the memory for n bytes of an operation's body.
func (o operation) bodyCost(n int64) int64 {
	if o.cost != nil {
		return o.cost(n)
	}
	if o.skipsShape && !o.isFlat {
		return n*memoryPerByte + min(n, 2*maxValues)*memoryPerListByte
	}
	return n*memoryPerByte + min(n, smallBody)*memoryPerDecodedByte
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
	reservation *reservation
	ctx         context.Context //nolint:containedctx // the request's, which reads of its body have no parameter for
	setDeadline func(time.Time) error
	limit       int64
	cost        func(bytes int64) int64
	announced   int64 // -1: unknown
	startedAt   time.Time
	received    int64
	reserved    int64 // bytes of the body
	isLarge     bool  // it has a slot of its tenant's
	err         error // of a Read, which all later ones return
}

// meterBody has the body of a request read within the budgets.
func (h *reservation) meterBody(ctx huma.Context) error {
	r, op := requestOf(ctx), ctx.Operation()
	if r.ContentLength == 0 || r.Body == nil {
		return nil
	}
	limit, cost := int64(emptyBody), operation{}.bodyCost
	if op.RequestBody != nil {
		limit = op.MaxBodyBytes - 1
		cost, _ = op.Metadata[costKey].(func(int64) int64)
	}
	if r.ContentLength > limit {
		return tooLarge("The body", limit)
	}
	r.Body = &body{ReadCloser: r.Body, reservation: h, ctx: ctx.Context(), setDeadline: ctx.SetReadDeadline, limit: limit, cost: cost,
		announced: r.ContentLength, startedAt: time.Now()}
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
		b.err = b.reserveMore()
	}
	if b.err != nil {
		return 0, b.err
	}
	if b.received > 0 {
		_ = b.setDeadline(b.startedAt.Add(bodyDeadline(b.received))) // a recorder has none
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.reserved-b.received)])
	if b.received += int64(n); b.received > b.limit {
		b.err = tooLarge("The body", b.limit)
		return 0, b.err
	}
	if b.err = err; errors.Is(err, io.EOF) { // a long poll must not end with the body's deadline
		_ = b.setDeadline(time.Time{})
	}
	return n, err
}

// Close closes a body that was read to its end. Another one stays open: net/http
// would first read the rest of it, while the request still holds its memory and
// its slot. The connection ends after the answer.
func (b *body) Close() error {
	if errors.Is(b.err, io.EOF) {
		return b.ReadCloser.Close()
	}
	b.reservation.header.Set("Connection", "close")
	return nil
}

// grow reserves memory for more of the body.
func (b *body) reserveMore() error {
	const step = 32 << 10
	next := min(max(2*b.reserved, step), b.limit+1)
	if b.announced >= 0 {
		next = min(next, b.announced+1) // one more, to see the end
	}
	if !b.isLarge && (next > smallBody+1 || b.announced > smallBody) { // with nothing read, if that is known so early
		release, err := b.reservation.acquireSlot(b.ctx, large)
		if err != nil {
			return b.setRetryAfter(err)
		}
		b.isLarge, b.reservation.releaseLargeSlot = true, release
	}
	if err := b.reservation.reserve(b.cost(next) - b.cost(b.reserved)); err != nil {
		return b.setRetryAfter(err)
	}
	b.reserved = next
	return nil
}

// tell sets the header that the framework does not set for an error of a body.
func (b *body) setRetryAfter(err error) error {
	if e, ok := errors.AsType[*eventhook.Error](err); ok && e.RetryAfter > 0 {
		b.reservation.header.Set("Retry-After", strconv.Itoa(retrySeconds(e)))
	}
	return err
}

func (o operation) bodyLimit() int64 { return cmp.Or(o.maxBody, smallBody) }
