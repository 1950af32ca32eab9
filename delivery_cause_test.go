package eventhook_test

import (
	"testing"

	"github.com/eventhook/eventhook"
)

func TestCausesOfDeadDeliveries(t *testing.T) {
	for _, c := range []struct {
		text, want string
		status     int
	}{
		{"billing.example answered 500 Internal Server Error", "500", 500},
		{"billing.example:8443 answered 503 Service Unavailable (not retried: a terminal status of the retry policy)", "503", 503},
		{"billing.example answered 410 Gone", "410 Gone", 410},
		{"billing.example answered 302 Found; redirects are not followed", "302", 302},
		{"not sent: it is older than 24h", "too old", 0},
		{"no complete answer from billing.example within 30 s", "timeout", 0},
		{"no connection to billing.example in time", "timeout", 0},
		{"billing.example refused the connection", "connection refused", 0},
		{"the proxy that outbound.proxy_url names refused a connection to billing.example", "refused by the outbound proxy", 0},
		{"the name of billing.example is not known", "unknown host name", 0},
		{"the certificate of billing.example is not trusted", "certificate not trusted", 0},
		{"billing.example closed the connection without a complete answer", "connection closed", 0},
		{"transform: no member order_4711 in 0195d3a4-6000-7e54-8d72-6fa08192a3b4", "transform: no member … in …", 0},
		{"job 0x1f of\n17 failed", "job … of … failed", 0},
		{"the agent gave up (not retried: it would be older than 24h by then)", "the agent gave up", 0},
		{"", "unknown", 0},
	} {
		got, status := eventhook.DeadCause(c.text)
		if got != c.want || status != c.status {
			t.Errorf("%q: got %q and %d, want %q and %d", c.text, got, status, c.want, c.status)
		}
	}
}

func TestTheKeyOfAGroupNamesItsDestination(t *testing.T) {
	of := eventhook.DestinationID{1, 2, 3}
	key := eventhook.DeadGroupKey(of, "500")
	if got, ok := eventhook.ParseDeadGroupKey(key); !ok || got != of {
		t.Errorf("got %v, %t, want %v", got, ok, of)
	}
	if key == eventhook.DeadGroupKey(of, "502") || key == eventhook.DeadGroupKey(eventhook.DestinationID{9}, "500") {
		t.Error("two groups have one key")
	}
	for _, text := range []string{"", "x", key[1:], key + "AA", eventhook.DeadGroupKey(eventhook.DestinationID{}, "500"), "*" + key[1:]} {
		if _, ok := eventhook.ParseDeadGroupKey(text); ok {
			t.Errorf("%q is taken for a key", text)
		}
	}
}
