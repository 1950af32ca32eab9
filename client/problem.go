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

// Problem is an answer that is no success (RFC 9457).
type Problem struct { //nolint:errname // it is what RFC 9457 and the API call it
	Title  string  `json:"title"`
	Status int     `json:"status"`
	Detail string  `json:"detail"` // what to do about it; may be ""
	Errors []Fault `json:"errors"` // every fault of an invalid request

	RequestID  string        `json:"-"` // under which the gateway has it in its logs and its audit
	RetryAfter time.Duration `json:"-"` // 0: not said
}

// Error says all that the API has said.
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

// StatusOf is the HTTP status of a Problem in err's chain, or 0.
func StatusOf(err error) int {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p.Status
	}
	return 0
}

// problemOf reads an answer that is no success. One that is no problem
// document, such as a proxy's page, is told by its status alone.
func problemOf(resp *http.Response) *Problem {
	const most = 1 << 20
	p := &Problem{}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, most))
	if err != nil || json.Unmarshal(raw, p) != nil || p.Title == "" {
		*p = Problem{Title: http.StatusText(resp.StatusCode)}
		if !strings.HasPrefix(resp.Header.Get("Content-Type"), "application/problem+json") {
			p.Detail = "The answer is not the gateway's: is the server right?"
		}
	}
	p.Status = resp.StatusCode
	p.RequestID = resp.Header.Get("X-Request-Id")
	p.RetryAfter = retryAfter(resp.Header.Get("Retry-After"), time.Now())
	return p
}

// retryAfter reads seconds or a date (RFC 9110, section 10.2.3).
func retryAfter(field string, now time.Time) time.Duration {
	if seconds, err := strconv.Atoi(field); err == nil && seconds > 0 {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(field); err == nil && at.After(now) {
		return at.Sub(now)
	}
	return 0
}
