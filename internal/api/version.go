package api

import (
	"strconv"
	"strings"

	"github.com/eventhook/eventhook"
)

// IfMatch is the condition of a change: that nobody else was faster.
type IfMatch struct {
	IfMatch string `header:"If-Match" doc:"The ETag of what was read. If it has changed since then, nothing is done: 412. Without it, or with *, the change is made to whatever is there."`
}

// version is the version that must be current, 0 if any may be. What cannot
// be one of ours cannot be current.
func (m IfMatch) version() (int64, error) {
	tag := strings.TrimSpace(m.IfMatch)
	if tag == "" || tag == "*" {
		return 0, nil
	}
	quoted, ok := strings.CutPrefix(tag, `"`)
	digits, ok2 := strings.CutSuffix(quoted, `"`)
	v, err := strconv.ParseInt(digits, 10, 64)
	if !ok || !ok2 || err != nil || v < 1 {
		return 0, eventhook.ErrStale
	}
	return v, nil
}

// etag is the strong entity tag of a version (RFC 9110, section 8.8.3).
func etag(version int64) string { return strconv.Quote(strconv.FormatInt(version, 10)) }
