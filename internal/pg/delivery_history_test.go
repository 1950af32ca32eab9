package pg

import (
	"testing"
	"time"

	"github.com/eventhook/eventhook"
)

func TestHistoryIsParsed(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 123456000, time.UTC)
	failed := eventhook.Attempt{StartedAt: at, Duration: 20 * time.Millisecond, StatusCode: 500, ErrorClass: eventhook.ErrorHTTP5xx, Error: "it answered 500", Excerpt: "<p>"}
	good := eventhook.Attempt{StartedAt: at.Add(time.Second), Duration: time.Millisecond, StatusCode: 200}
	former := `{"started_at":"2026-03-01T12:00:00.123456Z","duration_ms":20,"status_code":500,"error":"it answered 500","error_class":"http_5xx","response_excerpt":"<p>"}` + "\n"
	got, err := parseHistory(former + historyLine(&failed) + historyLine(&good))
	if err != nil {
		t.Fatal(err)
	}
	same(t, "attempts", got, []eventhook.Attempt{failed, failed, good})
}
