//go:build !race

package verify

import "testing"

// TestAllocations is not run with the race detector, under which a sync.Pool
// forgets at random.
func TestAllocations(t *testing.T) {
	for _, id := range []string{"github", "stripe"} {
		for _, key := range []string{"secret", "forged"} {
			v, r := presetRequest(t, id, key)
			if n := testing.AllocsPerRun(1000, func() { _ = v.Verify(r) }); n > 2 {
				t.Errorf("%s, signed with %s: %v allocations, want at most 2", id, key, n)
			}
		}
	}
}
