package ingest_test

import (
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/ingest"
)

func TestClientAddress(t *testing.T) {
	proxies := []string{"10.0.0.0/8", "fd00::/8", "::ffff:172.16.0.0/108"}
	const proxy = "10.0.0.1:443"
	for _, c := range []struct {
		claim, peer string
		forwarded   []string
		want        string
	}{
		{"no proxy", "203.0.113.5:1", nil, "203.0.113.5"},
		{"the header of an untrusted peer is ignored", "203.0.113.5:1", []string{"198.51.100.1"}, "203.0.113.5"},
		{"the header of a proxy is used", proxy, []string{"198.51.100.1"}, "198.51.100.1"},
		{"the header of an IPv6 proxy is used", "[fd00::1]:443", []string{"2001:db8::5"}, "2001:db8::5"},
		{"an IPv4-mapped range", "172.16.3.4:1", []string{"198.51.100.1"}, "198.51.100.1"},
		{"a proxy without the header", proxy, nil, "10.0.0.1"},
		{"entries before the client's address are ignored", proxy, []string{"1.1.1.1, 198.51.100.1"}, "198.51.100.1"},
		{"through two proxies", proxy, []string{"1.1.1.1, 198.51.100.1, 10.0.0.2"}, "198.51.100.1"},
		{"a client in the network of the proxies", proxy, []string{"10.9.9.9, 10.0.0.2"}, "10.9.9.9"},
		{"several header lines are one list", proxy, []string{"1.1.1.1", "198.51.100.1", "10.0.0.2, 10.0.0.3"}, "198.51.100.1"},
		{"a mapped peer", "[::ffff:10.0.0.1]:443", []string{"198.51.100.1"}, "198.51.100.1"},
		{"a mapped hop", proxy, []string{"::ffff:198.51.100.1"}, "198.51.100.1"},
		{"a mapped hop that is a proxy", proxy, []string{"198.51.100.1, ::ffff:10.0.0.2"}, "198.51.100.1"},
		{"without spaces", proxy, []string{"1.1.1.1,198.51.100.1,10.0.0.2"}, "198.51.100.1"},
		{"an invalid last entry", proxy, []string{"198.51.100.1, unknown"}, "10.0.0.1"},
		{"an invalid entry before the client's address", proxy, []string{"<script>, 198.51.100.1"}, "198.51.100.1"},
		{"an invalid entry before a proxy", proxy, []string{"198.51.100.1, \xff, 10.0.0.2"}, "10.0.0.2"},
		{"an empty header", proxy, []string{""}, "10.0.0.1"},
		{"a trailing comma", proxy, []string{"198.51.100.1,"}, "10.0.0.1"},
		{"the zone of a hop is removed", proxy, []string{"fe80::1%\xff<b>"}, "fe80::1"},
		{"the zone of a peer is removed", "[fe80::1%eth0]:1", nil, "fe80::1"},
		{"a peer without an address", "@", []string{"198.51.100.1"}, ""},
	} {
		t.Run(c.claim, func(t *testing.T) {
			r := newFixture(t, func(config *ingest.Config) { config.TrustedProxies = proxies })
			req := from(c.peer, webhook(""))
			req.Header["X-Forwarded-For"] = c.forwarded
			if got := r.accepted(t, req).SourceIP; got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestTheAllowlistAppliesToTheClientNotTheProxy(t *testing.T) {
	r := newFixture(t, func(c *ingest.Config) { c.TrustedProxies = []string{"10.0.0.0/8"} },
		func(s *eventhook.Source) { s.AllowedIPRanges = []string{"198.51.100.0/24", "2001:db8::/32"} })
	for _, c := range []struct {
		forwarded string
		want      int
	}{
		{"198.51.100.1", 200}, {"2001:db8::1", 200}, {"203.0.113.1", 403}, {"198.51.100.1, 203.0.113.1", 403}, {"198.51.100.1, garbage", 403}, {"", 403},
	} {
		r.wantStatus(t, from("10.0.0.1:1", webhook("", "X-Forwarded-For", c.forwarded)), c.want)
	}
	r.wantStatus(t, from("203.0.113.1:1", webhook("", "X-Forwarded-For", "198.51.100.1")), http.StatusForbidden)
}

func TestALongListOfHopsIsReadFromItsEnd(t *testing.T) {
	r := newFixture(t, func(c *ingest.Config) { c.TrustedProxies = []string{"10.0.0.0/8"} },
		func(s *eventhook.Source) { s.AllowedIPRanges = []string{"198.51.100.0/24"} })
	req := from("10.0.0.1:1", webhook("", "X-Forwarded-For", strings.Repeat(",", 200_000)+"203.0.113.1"))
	r.wantStatus(t, req, http.StatusForbidden)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r.wantStatus(t, req, http.StatusForbidden)
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 1<<20 {
		t.Errorf("the request allocated %d bytes, want at most 1 MiB", took)
	}
}
