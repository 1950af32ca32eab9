package eventhook_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/eventhook/eventhook"
)

func TestPagesNameTheDefaults(t *testing.T) {
	for page, texts := range map[string][]string{
		"README.md": {
			fmt.Sprintf("| `burst_size` | %d |", eventhook.DefaultBurstSize),
			fmt.Sprintf("| `requests_per_second` | %d |", eventhook.DefaultRequestsPerSecond),
			fmt.Sprintf("| `requests_per_minute` | %d |", eventhook.DefaultRequestsPerMinute),
			fmt.Sprintf("`max_body_bytes` (%d MiB by default, at most %d MiB", eventhook.DefaultMaxBodyBytes>>20, eventhook.LargestMaxBodyBytes>>20),
		},
		"docs/receiving.md": {
			fmt.Sprintf("after %d dead deliveries in a row (`disable_after_failures`)", eventhook.DefaultDisableAfterFailures),
			fmt.Sprintf("for up to %d h (`recovery.max_age_hours`)", eventhook.DefaultRecoveryHours),
		},
		"docs/operating.md": {fmt.Sprintf("at most %d operator subscriptions", eventhook.MaxOperatorSubscriptions)},
		"docs/targets.md":   {fmt.Sprintf("more than %d gateways", eventhook.MaxHops)},
	} {
		raw, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range texts {
			if !strings.Contains(string(raw), text) {
				t.Errorf("%s does not have %q", page, text)
			}
		}
	}
}
