package verify

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/eventhook/eventhook"
)

// DefaultTolerance is the default of Config.ToleranceSeconds.
const DefaultTolerance = 300

const maxTolerance = 24 * 60 * 60 // seconds

// timestampRule has the place and format of a request's timestamp and its maximum
// difference from the time of receipt.
type timestampRule struct {
	key       string   // name in the list of signatures, or
	header    string   // name of its own header, or
	jsonPath  string   // path in the body, in gjson's syntax
	path      []string // the same path
	unit      string
	tolerance int64 // seconds; 0: not checked
	future    bool  // accept any time in the future

	missing, unreadable *Error
}

// unixTime is a time in Unix seconds.
type unixTime int64

// newTimestampRule returns nil if the message has no timestamp.
func newTimestampRule(c Config) *timestampRule {
	s := &timestampRule{key: c.TimestampKey, header: http.CanonicalHeaderKey(c.TimestampHeader), jsonPath: literalPath(c.TimestampPath),
		unit: c.TimestampUnit, tolerance: DefaultTolerance, future: c.AllowFuture}
	if c.ToleranceSeconds != nil {
		s.tolerance = int64(*c.ToleranceSeconds)
	}
	written := map[string]string{"": "Unix seconds", "seconds": "Unix seconds", "milliseconds": "Unix milliseconds", "rfc3339": "RFC 3339"}[s.unit]
	if c.TimestampPath != "" {
		s.path = strings.Split(c.TimestampPath, ".")
	}
	switch {
	case c.TimestampHeader != "":
		s.missing = missingHeader(c.TimestampHeader)
		s.unreadable = refusef(ReasonMalformed, "%s does not contain exactly one timestamp in %s", c.TimestampHeader, written)
	case c.TimestampPath != "":
		s.missing = refusef(ReasonMissingField, "no %s in the body", c.TimestampPath)
		s.unreadable = refusef(ReasonMalformed, "the body's %s is not a timestamp in %s", c.TimestampPath, written)
	case c.TimestampKey != "":
		s.unreadable = refusef(ReasonMalformed, "%s does not contain exactly one %s in %s", c.Header, c.TimestampKey, written)
		s.missing = s.unreadable
	default:
		return nil
	}
	return s
}

// read returns the timestamp and its text. listed is the timestamp in the list of
// signatures and times how often it occurs there. If the timestamp has a header of
// its own, read ignores both.
func (s *timestampRule) read(r *Request, listed string, times int) (unixTime, string, *Error) {
	text := listed
	if s.header != "" {
		values := r.Header[s.header]
		if times = len(values); times > 0 {
			text = values[0]
		}
	}
	if times == 0 {
		return 0, "", s.missing
	}
	at, ok := parseTime(text, s.unit)
	if times > 1 || !ok {
		return 0, "", s.unreadable
	}
	return at, text, nil
}

// literalPath escapes a path for gjson, so that each step is a literal name.
func literalPath(path string) string {
	if path == "" {
		return ""
	}
	steps := strings.Split(path, ".")
	for i := range steps {
		steps[i] = gjson.Escape(steps[i])
	}
	return strings.Join(steps, ".")
}

// inBody returns the timestamp in a JSON body. It runs after the signature check, so
// repeated members and other ambiguities of the JSON are the provider's own.
func (s *timestampRule) inBody(r *Request) (unixTime, *Error) {
	v := gjson.GetBytes(r.Body, s.jsonPath)
	text := v.Str
	if v.Type == gjson.Number {
		text = v.Raw
	}
	if text == "" {
		return 0, s.missing
	}
	at, ok := parseTime(text, s.unit)
	if !ok {
		return 0, s.unreadable
	}
	return at, nil
}

var errNoReceiptTime = &Error{ReasonTimestamp, "the time of receipt, with which the timestamp is compared, is unknown"}

// checkAge compares a timestamp with the time of receipt.
func (s *timestampRule) checkAge(at unixTime, receipt time.Time) *Error {
	age := receipt.Unix() - int64(at)
	switch {
	case s.tolerance == 0:
		return nil
	case receipt.IsZero():
		return errNoReceiptTime
	case age > s.tolerance:
		return refusef(ReasonTimestamp, "signed %d s before receipt, tolerance %d s", age, s.tolerance)
	case -age > s.tolerance && !s.future:
		return refusef(ReasonTimestamp, "signed %d s after receipt, tolerance %d s", -age, s.tolerance)
	}
	return nil
}

// parseTime parses a timestamp: RFC 3339, or decimal digits without sign, space or
// fraction. Twelve digits of seconds reach beyond the year 30000 and cannot
// overflow.
func parseTime(s, unit string) (unixTime, bool) {
	maxDigits := 12
	switch unit {
	case "rfc3339":
		const maxSize = len("2006-01-02T15:04:05.999999999-07:00")
		if len(s) > maxSize {
			return 0, false
		}
		t, err := time.Parse(time.RFC3339, s)
		return unixTime(t.Unix()), err == nil
	case "milliseconds":
		maxDigits = 15
	}
	if len(s) > maxDigits {
		return 0, false
	}
	n, err := strconv.ParseUint(s, 10, 63)
	if unit == "milliseconds" {
		n /= 1000
	}
	return unixTime(n), err == nil
}

// write adds the timestamp r.At to the request and returns its text. If the
// timestamp belongs into the list of signatures, the caller adds it.
func (s *timestampRule) write(r *Request) (text string, err error) {
	text = formatTime(r.At, s.unit)
	switch {
	case s.header != "":
		r.Header.Set(s.header, text)
	case s.path != nil && s.unit == "rfc3339":
		err = setFields(r, s.path, text)
	case s.path != nil:
		err = setFields(r, s.path, json.Number(text))
	}
	return text, err
}

// formatTime is the inverse of parseTime.
func formatTime(at time.Time, unit string) string {
	switch unit {
	case "rfc3339":
		return at.UTC().Format(time.RFC3339)
	case "milliseconds":
		return strconv.FormatInt(at.UnixMilli(), 10)
	}
	return strconv.FormatInt(at.Unix(), 10)
}

// validateTimestamp checks the fields of the timestamp.
func validateTimestamp(c Config, f *eventhook.Faults) {
	validateChoice("timestamp_unit", c.TimestampUnit, f, "seconds", "milliseconds", "rfc3339")
	if c.TimestampHeader != "" && !IsToken(c.TimestampHeader) {
		f.Add("timestamp_header", "%q is not a header name", c.TimestampHeader)
	}
	if c.TimestampPath != "" {
		validateOnePath("timestamp_path", c.TimestampPath, false, f)
	}
	if c.TimestampHeader != "" && c.TimestampPath != "" {
		f.Add("timestamp_path", "cannot be combined with timestamp_header")
	}
	if c.ToleranceSeconds != nil && (*c.ToleranceSeconds < 0 || *c.ToleranceSeconds > maxTolerance) {
		f.Add("tolerance_seconds", "%d, want 0 (the time is not checked) to %d", *c.ToleranceSeconds, maxTolerance)
	}
	if strings.Contains(c.Signed, "{timestamp}") && c.TimestampHeader == "" && c.TimestampPath == "" && c.TimestampKey == "" {
		f.Add("timestamp_header", "missing, but signed contains {timestamp}")
	}
}
