package route_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook/route"
)

func TestConfigValidate(t *testing.T) {
	idle := route.DefaultConfig()
	idle.Workers, idle.DrainTimeout = 0, 0
	for _, c := range []struct {
		claim  string
		config route.Config
		want   []string
	}{
		{"the default", route.DefaultConfig(), nil},
		{"no workers and no drain timeout", idle, nil},
		{"the zero config", route.Config{}, []string{"batch_size", "inbox_events", "inbox_bytes", "cached_sources", "poll_interval"}},
		{
			"all wrong", route.Config{Workers: -1, BatchSize: -1, InboxEvents: -1, InboxBytes: -1, CachedSources: -1, PollInterval: time.Millisecond, DrainTimeout: -1},
			[]string{"workers", "batch_size", "inbox_events", "inbox_bytes", "cached_sources", "poll_interval", "drain_timeout"},
		},
	} {
		var got []string
		for _, f := range c.config.Validate() {
			got = append(got, f.Location)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: faults (-want +got):\n%s", c.claim, diff)
		}
	}
}
