package ingest_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook/ingest"
)

func TestTheDefaultConfigIsValid(t *testing.T) {
	if faults := ingest.DefaultConfig().Validate(); len(faults) > 0 {
		t.Errorf("got %v, want no faults", faults)
	}
}

func TestValidateReportsEveryFaultByItsKey(t *testing.T) {
	c := ingest.Config{TrustedProxies: []string{"10.0.0.0/8", "10.0.0.1", ""}}
	var keys []string
	for _, f := range c.Validate() {
		keys = append(keys, f.Location)
	}
	want := []string{
		"writers", "batch_events", "batch_bytes", "overlap_events", "queue_events", "queue_bytes", "in_flight_bytes", "cached_sources",
		"forgeries_burst", "unverified_work_per_sec", "forgeries_per_sec", "commit_timeout", "min_body_rate_after",
		"log.replicas", "log.name", "log.max_bytes", "log.append_timeout", "log.when_unavailable", "trusted_proxies[1]", "trusted_proxies[2]",
	}
	if diff := cmp.Diff(want, keys); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
}
