package api_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/api"
	"github.com/eventhook/eventhook/internal/pg"
	"github.com/eventhook/eventhook/outbound/replay"
)

// replays is the store of replays and their worker.
type replays struct {
	*pg.DB
	*replay.Worker
}

var _ api.ReplayStore = replays{}

// workReplays does all steps of replays that are due.
func (r *fixture) workReplays() {
	r.Helper()
	for {
		worked, _, err := r.replays.Step(r.Context())
		if err != nil {
			r.Fatal(err)
		}
		if !worked {
			return
		}
	}
}

func (r *fixture) startReplay(of string, body any) (id string, estimated float64) {
	r.Helper()
	started := r.admin("POST", subscriptionPath(of)+"/replay", body).want(http.StatusAccepted).object()
	return started["replay_id"].(string), started["estimated"].(float64)
}

func (r *fixture) replay(of, id string) object {
	r.Helper()
	return r.admin("GET", subscriptionPath(of)+"/replays/"+id, nil).want(http.StatusOK).object()
}

func TestReplaySubscription(t *testing.T) {
	r := setUp(t)
	one, other := r.subscribe("order.*"), r.subscribe("order.*")
	r.deliverTo(one, withStatus(eventhook.DeliveryDead))
	r.clock.Advance(time.Hour)
	since := r.clock.Now().Format(time.RFC3339Nano)
	for range 120 {
		r.deliverTo(one, withStatus(eventhook.DeliveryDead))
	}
	r.deliverTo(one)
	r.deliverTo(one, withStatus(eventhook.DeliveryFailed))
	r.deliverTo(other, withStatus(eventhook.DeliveryDead))
	r.clock.Advance(time.Second)
	for _, c := range []struct {
		claim string
		body  object
		want  float64
	}{
		{"at most the limit", object{"since": since, "limit": 20}, 20},
		{"dead deliveries since a time", object{"since": since, "until": since[:4] + "-12-31T00:00:00Z"}, 100},
		{"other statuses", object{"since": since, "status": []string{"success", "failed"}}, 2},
		{"other types", object{"since": since, "status": []string{"success", "failed"}, "event_types": []string{"payment.*"}}, 0},
		{"all since a past time", object{"since": "2020-01-01T00:00:00Z"}, 1},
	} {
		id, estimated := r.startReplay(one, c.body)
		if estimated != c.want {
			t.Errorf("%s: estimated %v, want %v", c.claim, estimated, c.want)
		}
		r.workReplays()
		if got := r.replay(one, id); got["matched"] != c.want || got["queued"] != c.want {
			t.Errorf("%s: matched %v and queued %v, want %v", c.claim, got["matched"], got["queued"], c.want)
		}
	}
	if got := r.list(subscriptionPath(one) + "/replays"); len(got.Items) != 5 {
		t.Errorf("got %d replays, want 5", len(got.Items))
	}
	if got := r.list(subscriptionPath(other) + "/replays"); len(got.Items) != 0 {
		t.Errorf("of another subscription: got %d replays, want none", len(got.Items))
	}
}

func TestReplayFaults(t *testing.T) {
	r := setUp(t)
	path := subscriptionPath(r.subscribe("order.*")) + "/replay"
	future := r.clock.Now().Add(time.Hour).Format(time.RFC3339)
	for body, want := range map[string][]string{
		`{}`: {"body.since"}, `{"since":"yesterday"}`: {"body.since"}, `{"since":"` + future + `"}`: {"body.since"},
		`{"since":"2026-01-02T00:00:00Z","until":"2026-01-01T00:00:00Z"}`:                         {"body.until"},
		`{"since":"2026-01-02T00:00:00Z","status":["pending"],"limit":1000001}`:                   {"body.status[0]", "body.limit"},
		`{"since":"2026-01-02T00:00:00Z","event_types":["order.*","*.x"]}`:                        {"body.event_types[1]"},
		`{"since":"2026-01-02T00:00:00Z","event_types":["a"` + strings.Repeat(`,"a"`, 100) + `]}`: {"body.event_types"},
	} {
		t.Run(body[:min(len(body), 60)], func(t *testing.T) {
			r.subtest(t).wantFaults(r.admin("POST", path, body), 422, want)
		})
	}
}

func TestAnIdenticalRunningReplayIsNotStartedAgain(t *testing.T) {
	r := setUp(t)
	one := r.subscribe("order.*")
	d := r.deliverTo(one, withStatus(eventhook.DeliveryDead))
	r.clock.Advance(time.Second)
	body := object{"since": "2020-01-01T00:00:00Z", "status": []string{"failed", "dead"}}
	id, _ := r.startReplay(one, body)
	r.clock.Advance(time.Minute)
	if again, _ := r.startReplay(one, object{"since": "2020-01-01T00:00:00+00:00", "status": []string{"dead", "failed", "dead"}}); again != id {
		t.Errorf("the same request got the replay %s, want %s", again, id)
	}
	if other, _ := r.startReplay(one, object{"since": "2020-01-01T00:00:00Z"}); other == id {
		t.Error("another request got the same replay")
	}
	r.admin("POST", subscriptionPath(one)+"/replays/"+id+"/cancel", nil).want(http.StatusOK)
	if again, _ := r.startReplay(one, body); again == id {
		t.Error("a request got a replay that was cancelled")
	}
	r.workReplays()
	if got := r.admin("GET", T("acme")+deliveries+"/"+d, nil).want(http.StatusOK).object(); got["status"] != "pending" {
		t.Errorf("the delivery is %v, want pending", got["status"])
	}
}

func TestAReplayIsCancelledOnce(t *testing.T) {
	r := setUp(t)
	one := r.subscribe("order.*")
	d := r.deliverTo(one, withStatus(eventhook.DeliveryDead))
	r.clock.Advance(time.Second)
	id, _ := r.startReplay(one, object{"since": "2020-01-01T00:00:00Z"})
	cancel := subscriptionPath(one) + "/replays/" + id + "/cancel"
	got := r.admin("POST", cancel, nil).want(http.StatusOK).object()
	if got["status"] != "cancelled" || got["finished_at"] == nil || got["queued"] != 0.0 {
		t.Errorf("got %v, want a cancelled replay", got)
	}
	r.workReplays()
	if got := r.admin("GET", T("acme")+deliveries+"/"+d, nil).want(http.StatusOK).object(); got["status"] != "dead" {
		t.Errorf("after the cancellation: the delivery is %v, want dead", got["status"])
	}
	r.admin("POST", cancel, nil).want(http.StatusConflict)
	r.admin("POST", subscriptionPath(one)+"/replays/"+eventhook.NewID[eventhook.Replay](noon).String()+"/cancel", nil).want(http.StatusNotFound)
	r.admin("GET", subscriptionPath(one)+"/replays/x", nil).want(http.StatusBadRequest)
}

func TestRunningReplaysAreBounded(t *testing.T) {
	r := setUp(t)
	one := r.subscribe("order.*")
	for i := range eventhook.MaxRunningReplays {
		r.startReplay(one, object{"since": "2020-01-01T00:00:00Z", "limit": i + 1})
	}
	r.admin("POST", subscriptionPath(one)+"/replay", object{"since": "2020-01-01T00:00:00Z"}).want(http.StatusConflict)
	r.startReplay(one, object{"since": "2020-01-01T00:00:00Z", "limit": 1}) // is running
}
