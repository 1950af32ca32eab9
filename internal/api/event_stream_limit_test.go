package api

import (
	"testing"
	"time"

	"github.com/eventhook/eventhook"
)

func TestEndedStreamsFreeTheirSlots(t *testing.T) {
	var s streamLimiter
	for range 3 {
		var releases []func()
		for len(releases) < maxInstanceStreams {
			tenant := eventhook.NewID[eventhook.Tenant](time.Now())
			for range maxTenantStreams {
				release, err := s.acquire(tenant)
				if err != nil {
					t.Fatalf("stream %d was refused: %v", len(releases), err)
				}
				releases = append(releases, release)
			}
			if _, err := s.acquire(tenant); eventhook.KindOf(err) != eventhook.KindRateLimited {
				t.Fatalf("beyond the limit of a tenant: got %v, want KindRateLimited", err)
			}
		}
		if _, err := s.acquire(eventhook.NewID[eventhook.Tenant](time.Now())); eventhook.KindOf(err) != eventhook.KindRateLimited {
			t.Fatalf("beyond the limit of the instance: got %v, want KindRateLimited", err)
		}
		for _, release := range releases {
			release()
		}
	}
	if s.n != 0 || len(s.of) != 0 {
		t.Errorf("after all have ended: %d streams of %d tenants, want none", s.n, len(s.of))
	}
}
