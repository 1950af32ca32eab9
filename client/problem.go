package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Problem is the error of a call that the gateway answered with a status other than 2xx
// (problem details, RFC 9457).
type Problem struct { //nolint:errname // the name of RFC 9457 and of the API
	Title  string  `json:"title"`
	Status int     `json:"status"`
	Detail string  `json:"detail"` // explains the problem; may be ""
	Errors []Fault `json:"errors"` // every fault of an invalid request

	RequestID  string        `json:"-"` // the id of the request in the logs and the audit log of the gateway
	RetryAfter time.Duration `json:"-"` // from the header field Retry-After; 0 if there is none
}

// Error returns the status, the title, the detail and every fault.
func (p *Problem) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d %s", p.Status, p.Title)
	if p.Detail != "" {
		b.WriteString(": " + p.Detail)
	}
	for i, f := range p.Errors {
		b.WriteString(map[bool]string{true: " ", false: "; "}[i == 0])
		fmt.Fprintf(&b, "%s: %s", f.Location, f.Message)
	}
	return b.String()
}

// StatusOf returns the HTTP status of the first *Problem in the chain of err, or 0 if there is
// none.
func StatusOf(err error) int {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p.Status
	}
	return 0
}

// RetryAfterOf returns the RetryAfter of the first *Problem in the chain of err, or 0 if there is
// none.
func RetryAfterOf(err error) time.Duration {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p.RetryAfter
	}
	return 0
}

// IsTemporary reports whether a retry of the call that returned err may succeed: the gateway did
// not answer, failed, or limits the rate.
func IsTemporary(err error) bool {
	status := StatusOf(err)
	return status == 0 || status == http.StatusRequestTimeout || status == http.StatusTooManyRequests ||
		status >= http.StatusInternalServerError
}

// problemOf returns the Problem of a response. If the response is not a problem document, for
// example an error page of a proxy, the Problem has only the status and a hint.
func problemOf(resp *http.Response) *Problem {
	const maxBytes = 1 << 20
	p := &Problem{}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxBytes))
	if err != nil || json.Unmarshal(raw, p) != nil || p.Title == "" {
		*p = Problem{Title: http.StatusText(resp.StatusCode)}
		if !strings.HasPrefix(resp.Header.Get("Content-Type"), "application/problem+json") {
			p.Detail = "The response is not from an Eventhook gateway; check the URL of the server."
		}
	}
	p.Status = resp.StatusCode
	p.RequestID = resp.Header.Get("X-Request-Id")
	p.RetryAfter = retryAfter(resp.Header.Get("Retry-After"), time.Now())
	return p
}

// retryAfter parses a number of seconds or a date (RFC 9110, section 10.2.3). It returns 0 if the
// field is neither, or is in the past.
func retryAfter(field string, now time.Time) time.Duration {
	if seconds, err := strconv.Atoi(field); err == nil && seconds > 0 {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(field); err == nil && at.After(now) {
		return at.Sub(now)
	}
	return 0
}
