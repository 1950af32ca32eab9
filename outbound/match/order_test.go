package match_test

import (
	"context"
	"strings"
	"testing"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/meter"
	"github.com/eventhook/eventhook/outbound/match"
)

func TestOrderKey(t *testing.T) {
	megabyte := strings.Repeat("é", 1<<19)
	e := &eventhook.Event{
		TenantID: eventhook.TenantID{1}, EventType: "order.made", CorrelationID: "c-1",
		Payload: eventhook.Payload{Body: []byte(`{"id":7,"float":7.0,"big":9007199254740993,"near":9007199254740992,"text":"7","yes":true,"none":null,"empty":"",
			"object":{"id":"x"},"list":["a","b"],"a.b":1,"escaped":"\u00e9","plain":"é","long":"` + megabyte + `"}`)},
		Envelope: &eventhook.Envelope{Source: "shop", Scope: []byte(`"customer-42"`), Actor: []byte(`{"id":"u1"}`), Metadata: []byte(`{"region":"eu"}`)},
	}
	for _, c := range []struct{ claim, path, want string }{
		{"a number", "data.id", "7"},
		{"another spelling of the number", "data.float", "7"},
		{"the same as a text", "data.text", "7"},
		{"a large integer", "data.big", "9007199254740993"},
		{"its neighbour differs", "data.near", "9007199254740992"},
		{"a boolean", "data.yes", "true"},
		{"a nested text", "data.object.id", "x"},
		{"an element", "data.list.1", "b"},
		{"an escaped text", "data.escaped", "é"},
		{"the same without an escape", "data.plain", "é"},
		{"a text of a megabyte", "data.long", megabyte},
		{"the type", "event_type", "order.made"},
		{"the source", "source", "shop"},
		{"the scope", "scope", "customer-42"},
		{"a member of the actor", "actor.id", "u1"},
		{"a member of the metadata", "metadata.region", "eu"},
		{"the tenant", "tenant_id", e.TenantID.String()},
		{"the correlation id", "correlation_id", "c-1"},
	} {
		if got := match.OrderKey(c.path, e); got != eventhook.OrderKeyOf(c.want) {
			t.Errorf("%s: got another key than that of %.20q", c.claim, c.want)
		}
	}
	if match.OrderKey("data.empty", e).IsZero() {
		t.Error("an empty text is a value, got none")
	}
	for _, path := range []string{"", "data", "data.absent", "data.none", "data.object", "data.list", "data.list.9", "data.id.more", "category", "actor", "metadata.none", "nonsense"} {
		if got := match.OrderKey(path, e); !got.IsZero() {
			t.Errorf("%q: got %x, want no order", path, got)
		}
	}
}

func TestOrderKeysCountTheirWork(t *testing.T) {
	e := &eventhook.Event{EventType: "order.made", Payload: eventhook.Payload{Body: []byte(`{"id":"` + strings.Repeat("x", 1<<20) + `"}`)}}
	subs := []*eventhook.Subscription{{}, {}}
	if keys := match.OrderKeys(meter.New(context.Background(), 1, nil), e, subs); keys != nil {
		t.Errorf("without an ordered subscription: got %v, want nil", keys)
	}
	subs[1].OrderedBy = "data.id"
	m := meter.New(context.Background(), 1, nil)
	if match.OrderKeys(m, e, subs); m.Err() == nil {
		t.Error("a meter that is too small for the event has no error")
	}
	keys := match.OrderKeys(meter.New(context.Background(), meter.EventLimit, nil), e, subs)
	if len(keys) != 2 || !keys[0].IsZero() || keys[1].IsZero() {
		t.Errorf("got %v, want a key for the second subscription only", keys)
	}
}
