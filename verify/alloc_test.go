//go:build !race

package verify

import (
	"slices"
	"testing"
)

// TestAllocations does not run with the race detector, with which a sync.Pool
// drops items at random.
func TestAllocations(t *testing.T) {
	inHeader := []string{"hmac", "timestamped_hmac", "hash", "standard_webhooks"}
	tight := []string{"github", "stripe", "slack", "shopify", "standard-webhooks"}
	checked := 0
	for _, p := range Presets() {
		if !slices.Contains(inHeader, p.Verifier.Type) {
			continue
		}
		checked++
		maxAllocs := 6.0
		if slices.Contains(tight, p.ID) {
			maxAllocs = 2
		}
		c, v := presetVerifier(t, p, "secret")
		for _, key := range []string{"secret", "forged"} {
			r := signedFor(t, c, key, 1024)
			if n := testing.AllocsPerRun(200, func() { _ = v.Verify(t.Context(), r) }); n > maxAllocs {
				t.Errorf("%s/%s, signed with %s: %v allocations, want at most %v", p.ID, p.Scheme, key, n, maxAllocs)
			}
		}
	}
	if checked == 0 {
		t.Error("no preset was checked")
	}
}
