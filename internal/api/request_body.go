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

// Limits of bodies in bytes. An operation sets its limit in maxBody.
const (
	smallBody  = 64 << 10  // default
	emptyBody  = 4 << 10   // of an operation without a body; allows white space and an empty value
	configBody = 512 << 10 // of a configuration, with keys, filters and scripts
	errorBody  = 128 << 10 // of an error of 10 000 characters, escaped
	resultBody = 1 << 20   // of an output that is stored unparsed
)

// Upper bounds of the memory of a request in bytes. TestMemoryOfBodies measures them.
const (
	requestMemory        = 64 << 10 // without the body
	memoryPerByte        = 12       // per byte of a body
	memoryPerDecodedByte = 120      // in addition per byte of the first smallBody bytes, which may be decoded value by value
	// memoryPerListByte replaces memoryPerDecodedByte for documents with lists, where each
	// element of two bytes may have a fault. maxValues bounds the elements.
	memoryPerListByte = 600
)

// bodyCost returns the memory in bytes that is reserved for n bytes of a body.
func (o operation) bodyCost(n int64) int64 {
	if o.cost != nil {
		return o.cost(n)
	}
	if o.skipsShape && !o.isFlat {
		return n*memoryPerByte + min(n, 2*maxValues)*memoryPerListByte
	}
	return n*memoryPerByte + min(n, smallBody)*memoryPerDecodedByte
}

// Minimum rate of bodies, after a grace period.
const (
	bodyTimeout = 30 * time.Second // for a whole body
	bodyGrace   = 5 * time.Second
	bodyRate    = 32 << 10 // bytes per second
)

// bodyDeadline returns the maximum time from the start of a body to its next byte if
// received bytes have arrived.
func bodyDeadline(received int64) time.Duration {
	return min(bodyGrace+time.Duration(received)*time.Second/bodyRate, bodyTimeout)
}

// body is a request body that reserves memory from the budgets while it is read. A
// body larger than smallBody also needs one of the slots for large bodies.
type body struct {
	io.ReadCloser
	reservation *reservation
	ctx         context.Context //nolint:containedctx // Read has no parameter for the context of the request
	setDeadline func(time.Time) error
	limit       int64
	cost        func(bytes int64) int64
	announced   int64 // Content-Length; -1: unknown
	startedAt   time.Time
	received    int64
	reserved    int64 // bytes of the body for which memory is reserved
	isLarge     bool  // has a slot for large bodies
	err         error // of an earlier Read; returned by all later ones
}

// meterBody replaces the body of a request by one that is read within the budgets.
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

// tooLarge returns the error for a body, or a part of a body, beyond a limit.
func tooLarge(part string, limit int64) error {
	status := http.StatusRequestEntityTooLarge
	return &problem{Title: http.StatusText(status), Status: status, Detail: fmt.Sprintf("%s is larger than %d bytes, the limit of this operation.", part, limit)}
}

// Read implements io.Reader. Its errors other than io.EOF are a *problem, an
// *eventhook.Error, or those of the connection.
func (b *body) Read(p []byte) (int, error) {
	if b.err == nil && b.received == b.reserved {
		b.err = b.reserveMore()
	}
	if b.err != nil {
		return 0, b.err
	}
	if b.received > 0 {
		_ = b.setDeadline(b.startedAt.Add(bodyDeadline(b.received))) // not supported by httptest.ResponseRecorder
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.reserved-b.received)])
	if b.received += int64(n); b.received > b.limit {
		b.err = tooLarge("The body", b.limit)
		return 0, b.err
	}
	if b.err = err; errors.Is(err, io.EOF) { // a long poll must not end at the deadline of the body
		_ = b.setDeadline(time.Time{})
	}
	return n, err
}

// Close closes a body that was read to its end. It leaves any other body open and
// ends the connection after the response: net/http would first read the rest of the
// body, while the request still holds its memory and its slot.
func (b *body) Close() error {
	if errors.Is(b.err, io.EOF) {
		return b.ReadCloser.Close()
	}
	b.reservation.header.Set("Connection", "close")
	return nil
}

// reserveMore reserves memory for more of the body.
func (b *body) reserveMore() error {
	const step = 32 << 10
	next := min(max(2*b.reserved, step), b.limit+1) // one more than the limit, to detect a larger body
	if b.announced >= 0 {
		next = min(next, b.announced+1) // one more, to detect the end
	}
	if !b.isLarge && (next > smallBody+1 || b.announced > smallBody) { // before the first read if the length is announced
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

// setRetryAfter sets the header Retry-After, which the framework does not set for
// errors of a body.
func (b *body) setRetryAfter(err error) error {
	if e, ok := errors.AsType[*eventhook.Error](err); ok && e.RetryAfter > 0 {
		b.reservation.header.Set("Retry-After", strconv.Itoa(retrySeconds(e)))
	}
	return err
}

func (o operation) bodyLimit() int64 { return cmp.Or(o.maxBody, smallBody) }
