package api_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/route"
)

const foundTrace = "4bf92f3577b34da6a3ce929d0e0e4736"

// TestEventsAreFoundByTraceRequestAndTypePattern lists events of one tenant, and of all.
func TestEventsAreFoundByTraceRequestAndTypePattern(t *testing.T) {
	r := setUp(t)
	e := r.dead(func(e *eventhook.Event) {
		e.EventType, e.TraceID, e.RequestID = "payment_intent.created", foundTrace, "r-1"
	})
	r.dead(func(e *eventhook.Event) { e.EventType = "payment_intents" })
	for query, want := range map[string]int{
		"event_type=payment_intent.*":               1,
		"event_type=payment_intent.created":         1,
		"event_type=refund.*":                       0,
		"trace_id=4BF92F3577B34DA6A3CE929D0E0E4736": 1,
		"trace_id=" + foundTrace + "&status=dead":   1,
		"trace_id=" + foundTrace + "&source=shop":   0,
		"request_id=r-1":                            1,
		"correlation_id=r-1":                        0,
		"scope=customer-42":                         0,
	} {
		for _, path := range []string{T("acme") + "/events?", "/api/admin/events?", "/api/admin/events?tenant=acme&"} {
			var p struct {
				Items []struct{ ID, Tenant string }
				Next  *string `json:"next_cursor"`
			}
			r.admin("GET", path+query, nil).want(http.StatusOK).into(&p)
			if len(p.Items) != want || p.Next != nil || want == 1 && p.Items[0].ID != e.ID.String() {
				t.Errorf("%s: got %+v, want %d events and no next page", path+query, p, want)
			}
			if want == 1 && path[0:10] == "/api/admin" && p.Items[0].Tenant != "acme" {
				t.Errorf("%s: tenant %q, want acme", path, p.Items[0].Tenant)
			}
		}
	}
	r.admin("GET", T("acme")+"/events?trace_id=1", nil).want(http.StatusUnprocessableEntity)
	r.admin("GET", "/api/admin/events?tenant=nowhere", nil).want(http.StatusNotFound)
	for _, list := range []string{"deliveries", "subscriptions"} {
		r.admin("GET", "/api/admin/"+list+"?event_type=payment.*", nil).want(http.StatusOK)
	}
}

func TestSearchAnswersHowFarItCame(t *testing.T) {
	r := setUp(t)
	e := r.dead()
	r.routes.found = route.SearchResult{IDs: []eventhook.EventID{e.ID}, Scanned: 7, Until: e.ID, Next: e.ID}
	var got struct {
		Items   []struct{ ID string }
		Scanned int
		Until   time.Time `json:"scanned_until"`
		Next    string    `json:"next_cursor"`
	}
	const search = `{"filter":{"body.id":"42"},"received_after":"2026-03-01T00:00:00Z"`
	r.admin("POST", T("acme")+"/events/search", search+`}`).want(http.StatusOK).into(&got)
	if len(got.Items) != 1 || got.Items[0].ID != e.ID.String() || got.Scanned != 7 || !got.Until.Equal(e.ID.Time()) || got.Next == "" {
		t.Errorf("got %+v, want the event, 7 and a cursor", got)
	}
	r.admin("POST", T("acme")+"/events/search", search+`,"cursor":"`+got.Next+`"}`).want(http.StatusOK)
	p := r.admin("POST", T("acme")+"/events/search", search+`,"cursor":"x"}`).want(http.StatusBadRequest).problem()
	if at := p.locations(); len(at) != 1 || at[0] != "body.cursor" {
		t.Errorf("a bad cursor is a fault at %v, want body.cursor", at)
	}
	for body, status := range map[string]int{
		`{"filter":{"header.x-env":"live","event.type":"push"},"received_after":"2026-03-01T00:00:00Z"}`: http.StatusOK,
		`{"filter":{"headers.x-env":"live"},"received_after":"2026-03-01T00:00:00Z"}`:                    http.StatusUnprocessableEntity,
		`{}`:                      http.StatusUnprocessableEntity,
		search + `,"limit":0}`:    http.StatusUnprocessableEntity,
		search + `,"cursor":"x"}`: http.StatusBadRequest,
		search + `,"received_before":"2026-02-01T00:00:00Z"}`: http.StatusUnprocessableEntity,
	} {
		r.admin("POST", T("acme")+"/events/search", body).want(status)
	}
}

func TestAnEventIsProcessedAgain(t *testing.T) {
	r := setUp(t)
	e := r.dead()
	var got struct {
		IDs     []string `json:"event_ids"`
		Skipped []struct {
			ID     string `json:"event_id"`
			Reason string
		}
	}
	unknown := eventhook.NewID[eventhook.Event](noon).String()
	r.admin("POST", T("acme")+"/events/reprocess", `{"mode":"again","event_ids":["`+e.ID.String()+`","`+unknown+`"]}`).want(http.StatusOK).into(&got)
	if len(got.IDs) != 1 || len(got.Skipped) != 1 || got.Skipped[0].ID != unknown {
		t.Fatalf("got %+v, want one new event, and the unknown one skipped", got)
	}
	event := r.admin("GET", T("acme")+"/events/"+got.IDs[0], nil).want(http.StatusOK).object()
	if event["reprocessed_from"] != e.ID.String() || event["status"] != "pending" || event["outcome"] != "in_progress" {
		t.Errorf("got %v, want a pending event from %s", event, e.ID)
	}
	old := r.admin("GET", T("acme")+"/events/"+e.ID.String(), nil).want(http.StatusOK).object()
	if failures, _ := old["failures"].([]any); old["outcome"] != "failed" || len(failures) != 1 {
		t.Errorf("the dead event: outcome %v, failures %v; want failed and one", old["outcome"], old["failures"])
	}
	r.admin("POST", T("acme")+"/events/reprocess", `{"mode":"again","filter":{"status":["failed"]},"limit":1}`).want(http.StatusUnprocessableEntity)
	r.admin("POST", T("acme")+"/events/reprocess", `{"filter":{"status":["delivered"]},"limit":1}`).want(http.StatusUnprocessableEntity)
}
