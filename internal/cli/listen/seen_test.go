package listen

import (
	"fmt"
	"testing"
	"time"
)

func TestAFeedRemembersABoundedNumberOfWebhooksAndRepeatsNone(t *testing.T) {
	s, at := newSeen(10), time.Unix(1000, 0)
	for i := range 100 {
		if !s.add(fmt.Sprint(i), at.Add(time.Duration(i)*time.Second)) {
			t.Fatalf("webhook %d counts as seen, want it as new", i)
		}
	}
	for i := range 100 {
		if s.add(fmt.Sprint(i), at.Add(time.Duration(i)*time.Second)) {
			t.Errorf("webhook %d counts as new again", i)
		}
	}
	if len(s.ids) != 10 || len(s.order) != 10 {
		t.Errorf("remembers %d ids in %d entries, want 10", len(s.ids), len(s.order))
	}
}
