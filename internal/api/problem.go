package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eventhook/eventhook"
)

const problemType = "application/problem+json"

// problem is an error response (RFC 9457).
type problem struct {
	Title  string  `json:"title" doc:"Name of the status code."`
	Status int     `json:"status" doc:"Status code of the response."`
	Detail string  `json:"detail,omitempty" doc:"What is wrong and what to do."`
	Errors []fault `json:"errors,omitempty" doc:"All faults of an invalid request."`

	RequestID string `json:"request_id,omitempty" doc:"Of a status from 500: the X-Request-Id of the request, which the gateway's log has too."`
}

type fault struct {
	Location string `json:"location" example:"body.max" doc:"Part of the request, such as body.name or query.limit."`
	Message  string `json:"message" doc:"What is wrong with this part."`
}

func (p *problem) Error() string             { return p.Detail }
func (p *problem) GetStatus() int            { return p.Status }
func (p *problem) ContentType(string) string { return problemType }

// notValid is the detail of a problem with faults.
const notValid = "The request is not valid."

// Details that the examples of the document repeat.
const (
	bodyLate      = "The body was not received in time."
	internalError = "Internal error; try again."
)

// newProblem converts an error of the framework to a problem. The framework uses 422
// for parameters that cannot be parsed, and 500 for a body that ends early;
// newProblem returns 400 for both.
func newProblem(status int, message string, errs ...error) huma.StatusError {
	p := &problem{Detail: message}
	for _, err := range errs[:min(len(errs), maxFaults)] {
		if own, ok := errors.AsType[*problem](err); ok {
			return own
		}
		if own, ok := errors.AsType[*eventhook.Error](err); ok {
			return problemOf(own)
		}
		var detailer huma.ErrorDetailer
		if !errors.As(err, &detailer) {
			continue
		}
		d := detailer.ErrorDetail()
		switch {
		case status != http.StatusUnprocessableEntity:
		case strings.HasPrefix(d.Message, huma.ErrUnknownContentType.Error()):
			status = http.StatusUnsupportedMediaType
		case isUnparsable(d) || isSyntaxFault(d):
			status = http.StatusBadRequest
		}
		if places, ok := strings.CutPrefix(d.Message, nullsAt+"\n"); ok {
			for at := range strings.SplitSeq(places, "\n") {
				p.Errors = append(p.Errors, fault{Location: readable(at), Message: mustNotBeNull})
			}
			continue
		}
		f := fault(shapeFault(d))
		if isSyntaxFault(d) {
			body, _ := d.Value.(string)
			f.Message = readable(syntaxMessage([]byte(body)))
		}
		p.Errors = append(p.Errors, f)
	}
	switch {
	case message == unreadBody:
		status, p.Detail, p.Errors = http.StatusBadRequest, "The body ended early or is not valid HTTP.", nil
	case status == http.StatusRequestTimeout:
		p.Detail = bodyLate
	case status == http.StatusUnsupportedMediaType:
		p.Detail, p.Errors = "The body must be application/json.", nil
	case message == "request body is required":
		p.Detail, p.Errors = "A body is required.", []fault{{"body", "is required"}}
	case message == "validation failed":
		p.Detail = notValid
	}
	p.Title, p.Status = http.StatusText(status), status
	return p
}

// unreadBody is the message of the framework for a body that it could not read.
const unreadBody = "cannot read request body"

// isUnparsable reports whether a parameter cannot be parsed, as opposed to one that
// is out of range. Path parameters are only slugs and ids.
func isUnparsable(d *huma.ErrorDetail) bool {
	return strings.HasPrefix(d.Location, "path.") || strings.HasPrefix(d.Location, "query.") && strings.HasPrefix(d.Message, "invalid ")
}

// isSyntaxFault reports whether a fault means that a body is not JSON. The framework
// uses 422 for it, with a message of encoding/json.
func isSyntaxFault(d *huma.ErrorDetail) bool {
	return d.Location == "body" && slices.ContainsFunc([]string{"invalid character", "unexpected end of JSON", "exceeded max depth"},
		func(words string) bool { return strings.HasPrefix(d.Message, words) })
}

// syntaxMessage returns why a body is not JSON, with line and column. Columns count
// bytes, from 1.
func syntaxMessage(body []byte) string {
	wrong, ok := errors.AsType[*json.SyntaxError](json.Unmarshal(body, new(json.RawMessage)))
	if !ok {
		return "is not JSON"
	}
	before := body[:min(max(int(wrong.Offset)-1, 0), len(body))]
	return fmt.Sprintf("is not JSON: line %d, column %d: %s", bytes.Count(before, []byte("\n"))+1, len(before)-bytes.LastIndexByte(before, '\n'), wrong)
}

// rewordedMessage returns the message of a fault. It replaces messages of
// encoding/json, which name Go types, and messages about the expected type of a
// member that is null.
func rewordedMessage(d *huma.ErrorDetail) string {
	message := d.Message
	if d.Value == nil && strings.HasPrefix(d.Location, "body.") && strings.HasPrefix(message, "expected ") {
		return mustNotBeNull
	}
	if strings.HasPrefix(message, "json: ") || strings.HasPrefix(message, "parsing time") {
		return "has a wrong type, or a number that is too large for its type"
	}
	return message
}

// readable returns a text that may contain input of the client, prepared for
// display: without NUL and invalid UTF-8, truncated to 200 bytes.
func readable(s string) string {
	const maxBytes = 200
	return eventhook.Truncate(eventhook.SanitizeText(s), maxBytes)
}

// statuses maps the kinds of errors to HTTP statuses.
var statuses = map[eventhook.Kind]int{
	eventhook.KindMalformed:    http.StatusBadRequest,
	eventhook.KindInvalid:      http.StatusUnprocessableEntity,
	eventhook.KindUnauthorized: http.StatusUnauthorized,
	eventhook.KindForbidden:    http.StatusForbidden,
	eventhook.KindNotFound:     http.StatusNotFound,
	eventhook.KindConflict:     http.StatusConflict,
	eventhook.KindStale:        http.StatusPreconditionFailed,
	eventhook.KindRateLimited:  http.StatusTooManyRequests,
	eventhook.KindUnavailable:  http.StatusServiceUnavailable,
	eventhook.KindLoop:         http.StatusLoopDetected,
}

// problem converts an error of an operation to an error response. An error without a
// kind is logged, and the response does not reveal it, nor the cause of an error with a kind. The
// response and the log line of a failure of the gateway have the same request id.
func (s *server) problem(ctx context.Context, op operation, err error) error {
	if p, ok := errors.AsType[*problem](err); ok {
		return p
	}
	e, ok := errors.AsType[*eventhook.Error](err)
	if !ok {
		if ctx.Err() == nil {
			s.logFailure(ctx, op, slog.LevelError, err)
		}
		return &problem{Title: http.StatusText(http.StatusInternalServerError), Status: http.StatusInternalServerError,
			Detail: internalError, RequestID: callerOf(ctx).requestID}
	}
	p := problemOf(e)
	if p.Status >= http.StatusInternalServerError {
		p.RequestID = callerOf(ctx).requestID
		if e.Cause != nil && s.failureLines.AllowN(s.Now(), 1) {
			s.logFailure(ctx, op, slog.LevelWarn, err)
		}
	}
	if seconds := retrySeconds(e); seconds > 0 {
		return huma.ErrorWithHeaders(p, http.Header{"Retry-After": {strconv.Itoa(seconds)}})
	}
	return p
}

func (s *server) logFailure(ctx context.Context, op operation, level slog.Level, err error) {
	s.Log.Log(ctx, level, "request failed", "method", op.method, "path", op.path, "request_id", callerOf(ctx).requestID,
		"trace_id", callerOf(ctx).trace, "error", err)
}

func problemOf(e *eventhook.Error) *problem {
	status := statuses[e.Kind]
	p := &problem{Title: http.StatusText(status), Status: status, Detail: e.Message}
	for _, f := range e.Faults {
		p.Errors = append(p.Errors, fault{Location: f.Location, Message: f.Message})
	}
	return p
}

// retrySeconds returns the value of the header Retry-After; 0 if it is unknown.
func retrySeconds(e *eventhook.Error) int { return int((e.RetryAfter + time.Second - 1) / time.Second) }

// invalid returns the error of a request with one fault.
func invalid(location, message string) error {
	return eventhook.Faults{{Location: location, Message: message}}.Err(notValid)
}

// malformed returns the error for input that cannot be parsed; nil without faults.
func malformed(faults eventhook.Faults) error {
	if len(faults) == 0 {
		return nil
	}
	return &eventhook.Error{Kind: eventhook.KindMalformed, Message: "The request cannot be parsed.", Faults: faults}
}

// idAt parses an id and adds a fault if it is not a UUID.
func idAt[K any](faults *eventhook.Faults, location, s string) eventhook.ID[K] {
	id, err := eventhook.ParseID[K](s)
	if err != nil {
		faults.Add(location, "is not a UUID")
	}
	return id
}

// checkText adds a fault for a text that PostgreSQL cannot store.
func checkText(faults *eventhook.Faults, location, s string) {
	if eventhook.SanitizeText(s) != s {
		faults.Add(location, "must be UTF-8 without NUL")
	}
}
