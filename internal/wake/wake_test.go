package wake_test

import (
	"testing"

	"github.com/eventhook/eventhook/internal/wake"
)

func TestNotifyNeverBlocksAndHoldsUpToNNotifications(t *testing.T) {
	for _, n := range []int{1, 2} {
		s := wake.New(n)
		for range 5 {
			s.Notify()
		}
		if got := len(s); got != n {
			t.Errorf("after 5 calls of Notify: got %d notifications, want %d", got, n)
		}
	}
}
