package api

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eventhook/eventhook"
)

const problemType = "application/problem+json"

// problem is an RFC 9457 answer. It never repeats what the client sent.
type problem struct {
	Title  string  `json:"title"`
	Status int     `json:"status"`
	Detail string  `json:"detail,omitempty"`
	Errors []fault `json:"errors,omitempty" doc:"Every fault of an invalid request."`
}

type fault struct {
	Location string `json:"location" example:"body.max"`
	Message  string `json:"message"`
}

func (p *problem) Error() string             { return p.Detail }
func (p *problem) GetStatus() int            { return p.Status }
func (p *problem) ContentType(string) string { return problemType }

// newProblem makes a problem of what the framework found wrong.
func newProblem(status int, message string, errs ...error) huma.StatusError {
	p := &problem{Title: http.StatusText(status), Status: status, Detail: message}
	for _, err := range errs {
		var detailer huma.ErrorDetailer
		if errors.As(err, &detailer) {
			d := detailer.ErrorDetail()
			p.Errors = append(p.Errors, fault{Location: d.Location, Message: d.Message})
		}
	}
	return p
}

// statuses is the one table from kinds to statuses.
var statuses = map[eventhook.Kind]int{
	eventhook.KindMalformed:    http.StatusBadRequest,
	eventhook.KindInvalid:      http.StatusUnprocessableEntity,
	eventhook.KindUnauthorized: http.StatusUnauthorized,
	eventhook.KindForbidden:    http.StatusForbidden,
	eventhook.KindNotFound:     http.StatusNotFound,
	eventhook.KindConflict:     http.StatusConflict,
	eventhook.KindRateLimited:  http.StatusTooManyRequests,
	eventhook.KindUnavailable:  http.StatusServiceUnavailable,
}

// problem turns an error into an answer; one without a kind is logged and
// answered blandly.
func (s *server) problem(ctx context.Context, op operation, err error) error {
	e, ok := errors.AsType[*eventhook.Error](err)
	if !ok {
		if ctx.Err() == nil {
			s.Log.Error("a request failed", "method", op.method, "path", op.path, "error", err)
		}
		return newProblem(http.StatusInternalServerError, "Something went wrong here; try again.")
	}
	status := statuses[e.Kind]
	p := &problem{Title: http.StatusText(status), Status: status, Detail: e.Message}
	for _, f := range e.Faults {
		p.Errors = append(p.Errors, fault{Location: f.Location, Message: f.Message})
	}
	if e.RetryAfter > 0 {
		seconds := int((e.RetryAfter + time.Second - 1) / time.Second)
		return huma.ErrorWithHeaders(p, http.Header{"Retry-After": {strconv.Itoa(seconds)}})
	}
	return p
}

func invalid(location, message string) error {
	return eventhook.Faults{{Location: location, Message: message}}.Err("The request is not valid.")
}
