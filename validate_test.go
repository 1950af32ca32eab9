package eventhook_test

import (
	"strings"
	"testing"

	"github.com/eventhook/eventhook"
)

func TestIsSlug(t *testing.T) {
	for slug, ok := range map[string]bool{
		"a": true, "7": true, "acme": true, "a-b-9": true, strings.Repeat("a", 63): true,
		"": false, "-a": false, "a-": false, "A": false, "a_b": false, "a.b": false, "a b": false, "é": false,
		"a\n": false, "a/b": false, "..": false, strings.Repeat("a", 64): false,
	} {
		var want []string
		if !ok {
			want = []string{"slug"}
		}
		checkFaults(t, "tenant "+slug, eventhook.Tenant{Slug: slug, Name: "x"}.Validate(), want...)
		checkFaults(t, "source "+slug, eventhook.Source{Slug: slug, Name: "x"}.Validate(), want...)
	}
}

func TestReservedSlugs(t *testing.T) {
	for slug, want := range map[string][2][]string{
		"new": {{"slug"}, {"slug"}}, "all": {{"slug"}, {"slug"}}, "admin": {{"slug"}, nil}, "api": {{"slug"}, nil}, "system": {{"slug"}, nil}, "news": {nil, nil}, "test": {nil, nil},
	} {
		checkFaults(t, "tenant "+slug, eventhook.Tenant{Slug: slug, Name: "x"}.Validate(), want[0]...)
		checkFaults(t, "source "+slug, eventhook.Source{Slug: slug, Name: "x"}.Validate(), want[1]...)
	}
}

func TestNames(t *testing.T) {
	for name, ok := range map[string]bool{
		"A": true, "Ünïque, Inc.": true, strings.Repeat("n", 200): true,
		"": false, " ": false, "\t\u00a0 ": false, strings.Repeat("n", 201): false, "a\x00": false, "a\xff": false,
	} {
		var want []string
		if !ok {
			want = []string{"name"}
		}
		checkFaults(t, "tenant "+name, eventhook.Tenant{Slug: "a", Name: name}.Validate(), want...)
		checkFaults(t, "key "+name, eventhook.APIKey{Name: name, Scopes: eventhook.Scopes}.Validate(), want...)
	}
}

func TestValidateReturnsEveryFault(t *testing.T) {
	checkFaults(t, "tenant", eventhook.Tenant{}.Validate(), "slug", "name")
	checkFaults(t, "key", eventhook.APIKey{}.Validate(), "name", "scopes")
	checkFaults(t, "a key with unknown scopes", eventhook.APIKey{Name: "x", Scopes: []eventhook.Scope{"read", "root", "Read"}}.Validate(), "scopes[1]", "scopes[2]")
	checkFaults(t, "a key with a repeated scope", eventhook.APIKey{Name: "x", Scopes: []eventhook.Scope{"read", "work", "read"}}.Validate(), "scopes[2]")
	checkFaults(t, "source", eventhook.Source{SourceSettings: eventhook.SourceSettings{
		IdempotencyKeyPaths: []string{"body.id", "id"},
		EventTypePaths:      []string{"header.", "header.x-type"},
		RateLimit:           eventhook.RateLimit{RequestsPerSecond: -1, RequestsPerMinute: -1, BurstSize: -1},
		Retry:               eventhook.RetryPolicy{InitialDelayMS: -1, ScheduleSeconds: []int{-1}},
		AllowedIPRanges:     []string{"192.0.2.0/24", "192.0.2.1", "2001:db8::/129", "2001:db8::/32"},
		MaxBodyBytes:        eventhook.LargestMaxBodyBytes + 1,
		ContentTypes:        []string{"application/json", "a\r\nb"},
		Response:            &eventhook.SourceReply{Status: 404, ContentType: "text/plain\r\nX: y", Body: strings.Repeat("x", 64<<10) + "\x00"},
	}}.Validate(),
		"slug", "name", "idempotency_key_paths[1]", "event_type_paths[0]",
		"rate_limit.requests_per_second", "rate_limit.requests_per_minute", "rate_limit.burst_size",
		"retry.initial_delay_ms", "retry.schedule_seconds[0]", "allowed_ip_ranges[1]", "allowed_ip_ranges[2]",
		"max_body_bytes", "content_types[1]", "response.status", "response.content_type", "response.body", "response.body")
	checkFaults(t, "route", eventhook.Route{Priority: 2_000_000, FilterEventTypes: []string{"a", "*a"}}.Validate(),
		"name", "priority", "filter_event_types[1]", "targets")
	checkFaults(t, "too many targets", eventhook.Route{Name: "x", Targets: make([]eventhook.Target, 51)}.Validate(), "targets")
}

func TestHeaderPathsAreTokens(t *testing.T) {
	for path, ok := range map[string]bool{
		"header.x-id": true, "header.X_Id.2": true, "header.!#$%&'*+-.^_`|~": true, "header.x-id + header.x-date": true, "body.bad name": true,
		"header.bad name": false, "header.x:y": false, "header.x-\u00e9": false, "header.x-id + header.bad name": false, "header.a\t": false, "header.": false,
	} {
		if got := eventhook.CheckPath(path); (got == "") != ok {
			t.Errorf("%q: got %q, want valid: %t", path, got, ok)
		}
	}
}

func TestNoContentResponseHasNoBody(t *testing.T) {
	for _, c := range []struct {
		reply eventhook.SourceReply
		want  []string
	}{
		{eventhook.SourceReply{Status: 204}, nil},
		{eventhook.SourceReply{Status: 202, Body: "x"}, nil},
		{eventhook.SourceReply{Status: 204, Body: "x"}, []string{"response.body"}},
		{eventhook.SourceReply{Status: 205, Body: "x"}, []string{"response.body"}},
	} {
		checkFaults(t, c.reply.Body, eventhook.SourceSettings{Response: &c.reply}.Validate(), c.want...)
	}
}

func TestSourceDefaults(t *testing.T) {
	got := eventhook.RateLimit{BurstSize: 7}.WithDefaults()
	if want := (eventhook.RateLimit{RequestsPerSecond: 100, RequestsPerMinute: 1000, BurstSize: 7}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for set, want := range map[int]int{0: 1 << 20, 5: 5} {
		if got := (eventhook.SourceSettings{MaxBodyBytes: set}).BodyLimit(); got != want {
			t.Errorf("BodyLimit with %d: got %d, want %d", set, got, want)
		}
	}
}
