package api

import (
	"testing"
	"time"

	"github.com/eventhook/eventhook"
)

func TestPlacesOfStreamsAreGivenBack(t *testing.T) {
	var s streams
	for range 3 {
		var leave []func()
		for len(leave) < streamsOfAll {
			tenant := eventhook.NewID[eventhook.Tenant](time.Now())
			for range streamsOfTenant {
				end, err := s.enter(tenant)
				if err != nil {
					t.Fatalf("stream %d was refused: %v", len(leave), err)
				}
				leave = append(leave, end)
			}
			if _, err := s.enter(tenant); eventhook.KindOf(err) != eventhook.KindRateLimited {
				t.Fatalf("one more of a tenant: got %v, want it refused", err)
			}
		}
		if _, err := s.enter(eventhook.NewID[eventhook.Tenant](time.Now())); eventhook.KindOf(err) != eventhook.KindRateLimited {
			t.Fatalf("one more of all: got %v, want it refused", err)
		}
		for _, end := range leave {
			end()
		}
	}
	if s.n != 0 || len(s.of) != 0 {
		t.Errorf("after all have ended: %d streams of %d tenants, want none", s.n, len(s.of))
	}
}
