package cli

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook/internal/cli/clitest"
	"github.com/eventhook/eventhook/internal/cli/input"
)

// startLists starts a fake gateway that answers each GET of a list with items, and every other
// request with an empty object. It returns the requests.
func startLists(t *testing.T, items string) *[]string {
	t.Helper()
	clitest.ClearEnvironment(t)
	var got []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.Method+" "+strings.TrimPrefix(r.URL.RequestURI(), inShop))
		w.Header().Set("Content-Type", "application/json")
		answer := "{}"
		if isList := slices.Contains([]string{"deliveries", "keys", "subscriptions", "routes", "events"}, r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]); isList && r.Method == http.MethodGet {
			answer = `{"items":[` + items + `],"next_cursor":null}`
		}
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(s.Close)
	t.Setenv(input.ServerVariable, s.URL)
	t.Setenv(input.KeyVariable, testAdminKey)
	t.Setenv(input.TenantVariable, "shop")
	return &got
}

const (
	newestID = "0199aaaa-bbbb-7ccc-8ddd-eeeeffff0002"
	olderID  = "0199aaaa-bbbb-7ccc-8ddd-eeeeffff0001"
)

func TestLatestIsTheNewestItem(t *testing.T) {
	const items = `{"id":"` + newestID + `","origin":"source"},{"id":"` + olderID + `","origin":"source"}`
	const mixed = `{"id":"` + olderID + `"},{"id":"` + newestID + `"},{"id":"` + olderID + `"}` // routes are listed by priority
	for _, c := range []struct {
		args  []string
		items string
		want  string
	}{
		{[]string{"delivery", "get", "latest"}, items, "GET /deliveries/" + newestID},
		{[]string{"delivery", "retry", "latest"}, items, "POST /deliveries/" + newestID + "/retry"},
		{[]string{"delivery", "list", "--event", "latest"}, items, "GET /deliveries?event_id=" + newestID + "&limit=50"},
		{[]string{"delivery", "retry", "--event", "latest", "--limit", "1"}, items, "POST /deliveries/retry"},
		{[]string{"subscription", "get", "latest"}, items, "GET /subscriptions/" + newestID},
		{[]string{"delivery", "list", "--subscription", "latest"}, items, "GET /deliveries?limit=50&subscription_id=" + newestID},
		{[]string{"route", "get", "latest", "--source", "s"}, mixed, "GET /sources/s/routes/" + newestID},
		{[]string{"event", "payload", "latest"}, items, "GET /events/" + newestID + "/payload"},
	} {
		got := startLists(t, c.items)
		if out := runCommand(c.args...); out.Code != 0 && !strings.Contains(c.want, "payload") {
			t.Errorf("%v: got %+v, want success", c.args, out)
		}
		if len(*got) != 2 || (*got)[1] != c.want {
			t.Errorf("%v: requests (-want +got):\n%s", c.args, cmp.Diff([]string{"the list", c.want}, *got))
		}
	}
}

func TestLatestOfNothingIsAnError(t *testing.T) {
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"delivery", "get", "latest"}, "there are no deliveries yet"},
		{[]string{"subscription", "get", "latest"}, "there are no subscriptions yet"},
		{[]string{"route", "get", "latest", "--source", "s"}, "there are no routes of s yet"},
		{[]string{"key", "delete", "latest", "--yes"}, "there are no API keys yet"},
	} {
		got := startLists(t, "")
		if out := runCommand(c.args...); out.Code != ExitFailed || !strings.Contains(out.Stderr, c.says) || len(*got) != 1 {
			t.Errorf("%v: got %+v after %v, want %q", c.args, out, *got, c.says)
		}
	}
}
