package api

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/eventhook/eventhook"
)

// IfMatch is the condition of a change: that nobody else was faster.
type IfMatch struct {
	IfMatch string `header:"If-Match" doc:"ETag of the version to change, or several, separated by commas. If none of them is the current version, nothing is changed (412). If omitted or *, the change applies to any version."`
}

// maxVersions bounds how many versions a request may name: each that is not
// current costs a look.
const maxVersions = 20

// held makes a change under the condition: act is given the version that must
// be current, 0 if any may be, and returns ErrStale if it is not. Of several
// versions each is tried until one is current. What cannot be a version of ours
// cannot be current.
func (m IfMatch) applyIfMatch(apply func(version int64) error) error {
	list := strings.TrimSpace(m.IfMatch)
	if list == "" || list == "*" {
		return apply(0)
	}
	versions := versionsIn(list)
	if len(versions) > maxVersions {
		return malformed(eventhook.Faults{{Location: "header.If-Match", Message: "names more than " + strconv.Itoa(maxVersions) + " versions"}})
	}
	for _, v := range versions {
		if err := apply(v); !errors.Is(err, eventhook.ErrStale) {
			return err
		}
	}
	return eventhook.ErrStale
}

// versionsIn are the versions that a list of entity tags names, the newest
// first. Weak tags never match (RFC 9110, section 13.1.1).
func versionsIn(list string) (all []int64) {
	for tag := range strings.SplitSeq(list, ",") {
		quoted, opened := strings.CutPrefix(strings.TrimSpace(tag), `"`)
		digits, closed := strings.CutSuffix(quoted, `"`)
		if v, err := strconv.ParseInt(digits, 10, 64); opened && closed && err == nil && v > 0 {
			all = append(all, v)
		}
	}
	slices.Sort(all)
	all = slices.Compact(all)
	slices.Reverse(all)
	return all
}

// etag is the strong entity tag of a version (RFC 9110, section 8.8.3).
func etag(version int64) string { return strconv.Quote(strconv.FormatInt(version, 10)) }
