package verify

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/eventhook/eventhook"
)

const (
	defaultTolerance = 300
	maxTolerance     = 24 * 60 * 60
)

// timestampedScheme: the header lists parts, "t=1700000000,v1=…,v1=…"; each
// v1 is the HMAC of timestamp, joiner and body under one of the sender's
// secrets. Parts with other names are ignored, so that a weaker version
// beside the known one helps nobody.
var timestampedScheme = scheme{
	fields: []string{"header", "algorithm", "encoding", "timestamp_key", "signature_key",
		"joiner", "tolerance_seconds", "secrets"},
	validate: validateTimestamped,
	build:    newTimestamped,
}

func validateTimestamped(c Config, f *eventhook.Faults) {
	validateMAC(c, f)
	c = c.timestampedDefaults()
	if !isToken(c.TimestampKey) {
		f.Add("timestamp_key", "%q is not a token", c.TimestampKey)
	}
	if !isToken(c.SignatureKey) {
		f.Add("signature_key", "%q is not a token", c.SignatureKey)
	}
	if c.TimestampKey == c.SignatureKey {
		f.Add("signature_key", "the same as timestamp_key")
	}
	if c.Joiner != "." && c.Joiner != ":" {
		f.Add("joiner", "%q, want . or :", c.Joiner)
	}
	if t := *c.ToleranceSeconds; t < 1 || t > maxTolerance {
		f.Add("tolerance_seconds", "%d, want 1 to %d", t, maxTolerance)
	}
}

func (c Config) timestampedDefaults() Config {
	set := func(s *string, to string) {
		if *s == "" {
			*s = to
		}
	}
	set(&c.TimestampKey, "t")
	set(&c.SignatureKey, "v1")
	set(&c.Joiner, ".")
	if c.ToleranceSeconds == nil {
		c.ToleranceSeconds = new(defaultTolerance)
	}
	return c
}

type timestampedVerifier struct {
	header, timestampKey, signatureKey, joiner string
	tolerance                                  int64
	macs                                       *macs
	missing, stamp                             *Error
}

func newTimestamped(c Config) Verifier {
	c = c.timestampedDefaults()
	return &timestampedVerifier{
		header:       http.CanonicalHeaderKey(c.Header),
		timestampKey: c.TimestampKey,
		signatureKey: c.SignatureKey,
		joiner:       c.Joiner,
		tolerance:    int64(*c.ToleranceSeconds),
		macs:         newMACs(c),
		missing:      &Error{ReasonMissingHeader, "no " + c.Header},
		stamp:        &Error{ReasonMalformed, c.Header + " does not hold exactly one " + c.TimestampKey + " in Unix seconds"},
	}
}

// Verify looks at the signature first and at the time second, so that
// ReasonTimestamp always means a request that the source did sign: a replay,
// a long delay or a wrong clock, but no forgery.
func (v *timestampedVerifier) Verify(r *Request) error {
	values := r.Header[v.header]
	if len(values) == 0 {
		return v.missing
	}
	w := v.macs.take()
	defer v.macs.pool.Put(w)
	stamp, once := v.read(w, values)
	signedAt, ok := unixSeconds(stamp)
	if !once || !ok {
		return v.stamp
	}
	if err := v.macs.check(w, r.Body, stamp, v.joiner); err != nil {
		return err
	}
	return v.inTime(signedAt, r.At)
}

// read collects the signatures into w and returns the timestamp, and whether
// there was exactly one.
func (v *timestampedVerifier) read(w *worktop, values []string) (stamp string, once bool) {
	stamps := 0
	for _, value := range values {
		for item := range strings.SplitSeq(value, ",") {
			switch key, text, _ := strings.Cut(trim(item), "="); key {
			case v.timestampKey:
				stamp, stamps = text, stamps+1
			case v.signatureKey:
				w.propose(text)
			}
		}
	}
	return stamp, stamps == 1
}

func (v *timestampedVerifier) inTime(signedAt int64, at time.Time) error {
	age := at.Unix() - signedAt
	switch {
	case age > v.tolerance:
		return &Error{ReasonTimestamp, fmt.Sprintf("signed %d s before receipt, tolerance %d s", age, v.tolerance)}
	case -age > v.tolerance:
		return &Error{ReasonTimestamp, fmt.Sprintf("signed %d s after receipt, tolerance %d s", -age, v.tolerance)}
	}
	return nil
}

// unixSeconds reads plain decimal digits: no sign, no space, no fraction. Its
// twelve digits reach past the year 30000 and cannot overflow.
func unixSeconds(s string) (int64, bool) {
	if len(s) > 12 {
		return 0, false
	}
	n, err := strconv.ParseUint(s, 10, 63)
	return int64(n), err == nil // #nosec G115 -- 63 bits
}
