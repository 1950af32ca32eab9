package main

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/eventhook/eventhook/internal/pgtest"
)

func TestSourceTest(t *testing.T) {
	dsn := pgtest.New(t)
	i := startInstance(t, dsn)
	body := `{"ref":"main"}`
	var got struct {
		Verified bool
		Routes   []struct {
			Name, Reason string
			Matched      bool
			Actions      []struct {
				TargetType string `json:"target_type"`
				Input      json.RawMessage
			}
		}
	}
	for event, reason := range map[string]string{"push": `event type "push" matches "push"`, "ping": `event type "ping" matches none of push`} {
		status := i.call("POST", "/sources/github/test", map[string]any{"body": body,
			"headers": map[string]string{"X-Hub-Signature-256": "sha256=" + hexHMAC(testSecret, []byte(body)), "X-GitHub-Event": event}}, &got)
		if status != 200 || !got.Verified || len(got.Routes) != 1 || got.Routes[0].Matched != (event == "push") || got.Routes[0].Reason != reason {
			t.Fatalf("%s: answered %d %+v, want verified and the reason %s", event, status, got, reason)
		}
		if actions := got.Routes[0].Actions; event == "push" && (len(actions) != 1 || actions[0].TargetType != "task" || string(actions[0].Input) != body) {
			t.Errorf("the actions are %+v, want one task with the body", actions)
		}
	}
	conn := connect(t, dsn)
	for _, table := range []string{"event", "event_payload", "idempotency_key", "execution", "event_action", "rejection"} {
		own := map[string]string{"event": " WHERE origin <> 'system'", "event_payload": " WHERE event_id NOT IN (SELECT id FROM eventhook.event WHERE origin = 'system')"}
		if n := count(t, conn, "SELECT count(*) FROM eventhook."+table+own[table]); n != 0 {
			t.Errorf("%s has %d rows after the test of the source, want none", table, n)
		}
	}
	if sources := []string{"providers", "sources/github/rejections"}; slices.ContainsFunc(sources, func(p string) bool { return i.call("GET", "/"+p, nil, nil) != 200 }) {
		t.Errorf("one of %v is not answered", sources)
	}
}
