package verify

import (
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

// stampRule says where a timestamp is, how it is written, and how far it may
// lie from the receipt.
type stampRule struct {
	key       string // in the list of signatures, or
	header    string // in a header of its own, or
	jsonPath  string // in the body, in gjson's syntax
	unit      string
	tolerance int64 // seconds; 0: not judged
	future    bool  // any moment to come is good

	missing, unreadable *Error
}

// moment is a time in Unix seconds.
type moment int64

// newStampRule is nil if the message has no timestamp.
func newStampRule(c Config) *stampRule {
	s := &stampRule{key: c.TimestampKey, header: http.CanonicalHeaderKey(c.TimestampHeader), jsonPath: literalPath(c.TimestampPath),
		unit: c.TimestampUnit, tolerance: DefaultTolerance, future: c.AllowFuture}
	if c.ToleranceSeconds != nil {
		s.tolerance = int64(*c.ToleranceSeconds)
	}
	written := map[string]string{"": "Unix seconds", "seconds": "Unix seconds", "milliseconds": "Unix milliseconds", "rfc3339": "RFC 3339"}[s.unit]
	switch {
	case c.TimestampHeader != "":
		s.missing = missingHeader(c.TimestampHeader)
		s.unreadable = refusef(ReasonMalformed, "%s does not hold exactly one timestamp in %s", c.TimestampHeader, written)
	case c.TimestampPath != "":
		s.missing = refusef(ReasonMissingField, "no %s in the body", c.TimestampPath)
		s.unreadable = refusef(ReasonMalformed, "the body's %s is not a timestamp in %s", c.TimestampPath, written)
	case c.TimestampKey != "":
		s.unreadable = refusef(ReasonMalformed, "%s does not hold exactly one %s in %s", c.Header, c.TimestampKey, written)
		s.missing = s.unreadable
	default:
		return nil
	}
	return s
}

// read returns the moment and its text. listed is what stood in the list of
// signatures, and times how often.
func (s *stampRule) read(r *Request, listed string, times int) (moment, string, *Error) {
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
	at, ok := parseMoment(text, s.unit)
	if times > 1 || !ok {
		return 0, "", s.unreadable
	}
	return at, text, nil
}

// literalPath is a path in gjson's syntax whose steps mean themselves.
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

// inBody returns the moment that a JSON body holds. The body has been verified,
// so what it says is believed, however it says it.
func (s *stampRule) inBody(r *Request) (moment, *Error) {
	v := gjson.GetBytes(r.Body, s.jsonPath)
	text := v.Str
	if v.Type == gjson.Number {
		text = v.Raw
	}
	if text == "" {
		return 0, s.missing
	}
	at, ok := parseMoment(text, s.unit)
	if !ok {
		return 0, s.unreadable
	}
	return at, nil
}

var errNoMoment = &Error{ReasonTimestamp, "the moment of receipt, by which the timestamp is judged, is not known"}

// judge compares a moment with the receipt.
func (s *stampRule) judge(at moment, receipt time.Time) *Error {
	age := receipt.Unix() - int64(at)
	switch {
	case s.tolerance == 0:
		return nil
	case receipt.IsZero():
		return errNoMoment
	case age > s.tolerance:
		return refusef(ReasonTimestamp, "signed %d s before receipt, tolerance %d s", age, s.tolerance)
	case -age > s.tolerance && !s.future:
		return refusef(ReasonTimestamp, "signed %d s after receipt, tolerance %d s", -age, s.tolerance)
	}
	return nil
}

// parseMoment reads plain decimal digits, without sign, space or fraction, or
// RFC 3339. Twelve digits of seconds reach past the year 30000 and cannot
// overflow.
func parseMoment(s, unit string) (moment, bool) {
	digits := 12
	switch unit {
	case "rfc3339":
		const longest = len("2006-01-02T15:04:05.999999999-07:00")
		if len(s) > longest {
			return 0, false
		}
		t, err := time.Parse(time.RFC3339, s)
		return moment(t.Unix()), err == nil
	case "milliseconds":
		digits = 15
	}
	if len(s) > digits {
		return 0, false
	}
	n, err := strconv.ParseUint(s, 10, 63)
	if unit == "milliseconds" {
		n /= 1000
	}
	return moment(n), err == nil
}

// validateStamp checks the fields of a timestamp.
func validateStamp(c Config, f *eventhook.Faults) {
	validateChoice("timestamp_unit", c.TimestampUnit, f, "seconds", "milliseconds", "rfc3339")
	if c.TimestampHeader != "" && !IsToken(c.TimestampHeader) {
		f.Add("timestamp_header", "%q is not a header name", c.TimestampHeader)
	}
	if c.TimestampPath != "" {
		validateOnePath("timestamp_path", c.TimestampPath, false, f)
	}
	if c.TimestampHeader != "" && c.TimestampPath != "" {
		f.Add("timestamp_path", "there is a timestamp_header already")
	}
	if c.ToleranceSeconds != nil && (*c.ToleranceSeconds < 0 || *c.ToleranceSeconds > maxTolerance) {
		f.Add("tolerance_seconds", "%d, want 0 (the time is not judged) to %d", *c.ToleranceSeconds, maxTolerance)
	}
	if strings.Contains(c.Signed, "{timestamp}") && c.TimestampHeader == "" && c.TimestampPath == "" && c.TimestampKey == "" {
		f.Add("timestamp_header", "missing: {timestamp} is signed")
	}
}
