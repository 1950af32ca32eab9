package api

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/eventhook/eventhook"
)

// IfMatch is the condition that a resource has not changed since the caller read it.
type IfMatch struct {
	IfMatch string `header:"If-Match" doc:"ETag of the version to change, or several, separated by commas. If none of them is the current version, nothing is changed (412). If omitted or *, the change applies to any version."`
}

// maxVersions bounds the versions in an If-Match header. Each version may cost a
// query.
const maxVersions = 20

// applyIfMatch makes a change under the condition. It calls apply with the version
// that must be current, or 0 for any version; apply returns ErrStale if the version
// is not current. With several versions, applyIfMatch tries one after the other
// until one is current. Tags that are not versions of this API never match.
func (m IfMatch) applyIfMatch(apply func(version int64) error) error {
	list := strings.TrimSpace(m.IfMatch)
	if list == "" || list == "*" {
		return apply(0)
	}
	versions := versionsIn(list)
	if len(versions) > maxVersions {
		return malformed(eventhook.Faults{{Location: "header.If-Match", Message: "lists more than " + strconv.Itoa(maxVersions) + " versions"}})
	}
	for _, v := range versions {
		if err := apply(v); !errors.Is(err, eventhook.ErrStale) {
			return err
		}
	}
	return eventhook.ErrStale
}

// versionsIn returns the versions of a list of entity tags, highest first. Weak tags
// never match (RFC 9110, section 13.1.1).
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

// etag returns the strong entity tag of a version (RFC 9110, section 8.8.3).
func etag(version int64) string { return strconv.Quote(strconv.FormatInt(version, 10)) }
