package pg

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/eventhook/eventhook"
)

// TestStatusesInSQLAgreeWithTheRootPackage compares the statuses in statements, indexes and
// checks with the lists of the root package.
func TestStatusesInSQLAgreeWithTheRootPackage(t *testing.T) {
	f := setUp(t)
	check := queryValue[string](f, `SELECT pg_get_constraintdef(oid) FROM pg_constraint
		WHERE conrelid = 'eventhook.event'::regclass AND contype = 'c' AND pg_get_constraintdef(oid) LIKE '%unrouted%'`)
	predicate := func(index string) string {
		return queryValue[string](f, `SELECT pg_get_expr(indpred, indrelid) FROM pg_index WHERE indexrelid = $1::text::regclass`, "eventhook."+index)
	}
	lists := statesIn(exceptional)
	for _, c := range []struct {
		claim, sql string
		want       []eventhook.EventStatus
	}{
		{"the check constraint allows all statuses", check, eventhook.EventStatuses},
		{"events that can be reprocessed", reprocessSQL, eventhook.Reprocessable},
		{"events that can be processed again", strings.Replace(copyEventsSQL, "status NOT IN", "status IN", 1), eventhook.FinalEvents},
		{"index event_status has the statuses of its lists", predicate("event_status"), lists},
		{"index event_source_status has the same statuses", predicate("event_source_status"), lists},
	} {
		if got, want := statesIn(c.sql), slices.Sorted(slices.Values(c.want)); !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", c.claim, got, want)
		}
	}
	for _, s := range eventhook.EventStatuses {
		if isExceptional(s) != slices.Contains(lists, s) {
			t.Errorf("%s is exceptional: got %t, want what the SQL says: %v", s, isExceptional(s), lists)
		}
	}
}

var (
	anyOf  = regexp.MustCompile(`(?s)status (?:IN \(|= ANY \()(.*?)\)`)
	quoted = regexp.MustCompile(`'(\w+)'`)
)

// statesIn returns the statuses of the first list in a text, sorted.
func statesIn(sql string) (all []eventhook.EventStatus) {
	if list := anyOf.FindStringSubmatch(sql); list != nil {
		for _, word := range quoted.FindAllStringSubmatch(list[1], -1) {
			all = append(all, eventhook.EventStatus(word[1]))
		}
	}
	slices.Sort(all)
	return all
}
