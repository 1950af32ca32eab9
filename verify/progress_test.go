package verify

import "testing"

func TestAVerifiedRequestHasTheHighestProgress(t *testing.T) {
	for reason := range steps {
		if got := Progress(&Error{Reason: reason}); got >= Progress(nil) {
			t.Errorf("%s: got progress %d, want less than the %d of a verified request", reason, got, Progress(nil))
		}
	}
}
