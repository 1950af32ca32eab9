package send_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound/send"
)

func TestBody(t *testing.T) {
	e := newEvent()
	want := fmt.Sprintf(`{"event_id":"%s","event_type":"payment.succeeded","category":"payments","timestamp":"2026-11-22T02:44:25.123Z","tenant_id":"%s","source":"stripe",`+
		`"scope":{"project":"p1"},"actor":"ada","data":%s,"correlation_id":"order-7","request_id":"req-1","trace_id":"0af7651916cd43dd8448eb211c80319c",`+
		`"metadata":{"\u003ck\u003e":"a\"b","n":null}}`, e.ID, e.TenantID, unusualJSON)
	if diff := cmp.Diff(want, string(send.Body(e))); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
}

// Members without a value are omitted.
func TestBodyOmitsEmptyMembers(t *testing.T) {
	for claim, of := range map[string]*eventhook.Envelope{
		"no envelope": nil, "an empty one": {},
		"nulls":   {Scope: json.RawMessage("null"), Actor: json.RawMessage("null"), Metadata: json.RawMessage("null")},
		"no JSON": {Scope: json.RawMessage("{"), Actor: json.RawMessage(`"\`), Metadata: json.RawMessage("x")},
	} {
		e := &eventhook.Event{ID: newEvent().ID, EventType: "a", Envelope: of, Payload: eventhook.Payload{Body: []byte("[]")}}
		want := fmt.Sprintf(`{"event_id":"%s","event_type":"a","timestamp":"2026-11-22T02:44:25.123Z","tenant_id":"00000000-0000-0000-0000-000000000000","data":[],"trace_id":"%x"}`, e.ID, e.ID[:])
		if diff := cmp.Diff(want, string(send.Body(e))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", claim, diff)
		}
	}
}

func TestData(t *testing.T) {
	for _, c := range []struct{ claim, data, want string }{
		{"an object with unusual white space", unusualJSON, unusualJSON},
		{"surrounding white space", " \n[1]\t", " \n[1]\t"},
		{"a number", "-0.0e-0", "-0.0e-0"},
		{"null", "null", ""},
		{"nothing", "", ""},
		{"a text that is not JSON", "a=1&b=\"2\"\x01", `"a=1&b=\"2\"\u0001"`},
		{"two values", "1 2", `"1 2"`},
		{"bytes", "\xff\x00", `{"base64":"/wA="}`},
	} {
		e := newEvent()
		e.Envelope, e.Body = nil, []byte(c.data)
		body := send.Body(e)
		var got struct{ Data json.RawMessage }
		if err := json.Unmarshal(body, &got); err != nil {
			t.Errorf("%s: %v in %s", c.claim, err, body)
		}
		if has := bytes.Contains(body, []byte(`,"data":`+c.want+`,"correlation_id"`)); has == (c.want == "") {
			t.Errorf("%s: got %s, want the data %s", c.claim, body, c.want)
		}
	}
}

// FuzzBody compares the body with the output of encoding/json, and with the body of the event after its
// envelope was stored and read.
func FuzzBody(f *testing.F) {
	f.Add("payment.made", `{ "a" : "<\u2028\\\" &" , "b" : [ ] }`, unusualJSON)
	f.Add("\x00\xff", "\"\u2028\u2029\"", "\xff")
	f.Add("", " null ", "null ")
	f.Fuzz(func(t *testing.T, text, value, data string) {
		e := &eventhook.Event{EventType: text, CorrelationID: text, Payload: eventhook.Payload{Body: []byte(data)}}
		if json.Valid([]byte(data)) {
			e.Envelope = &eventhook.Envelope{Category: strings.ToValidUTF8(text, "")}
		}
		if e.Envelope != nil && json.Valid([]byte(value)) {
			e.Envelope.Actor, e.Envelope.Metadata = json.RawMessage(value), json.RawMessage(value)
		}
		body := send.Body(e)
		var got struct {
			Type     string `json:"event_type"`
			Metadata any    `json:"metadata"`
		}
		if err := json.Unmarshal(body, &got); err != nil {
			t.Fatalf("%v in %q", err, body)
		}
		if e.Envelope == nil {
			return
		}
		var want any
		if e.Envelope.Metadata != nil {
			_ = json.Unmarshal(e.Envelope.Metadata, &want)
		}
		if diff := cmp.Diff(want, got.Metadata); diff != "" {
			t.Errorf("metadata (-want +got):\n%s", diff)
		}
		stored, err := json.Marshal(e.Envelope)
		if err != nil {
			t.Fatal(err)
		}
		again := *e
		again.Envelope = &eventhook.Envelope{}
		if err := json.Unmarshal(bytes.ToValidUTF8(stored, []byte("\uFFFD")), again.Envelope); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(body), string(send.Body(&again))); diff != "" {
			t.Errorf("after storing (-want +got):\n%s", diff)
		}
	})
}
