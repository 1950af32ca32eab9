package pg

import (
	"bytes"
	"context"
	"slices"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
)

// TestAScanOfAllTenantsFindsTheWindow: a step reads no more rows than it may, although a
// thousand rows of one second follow a year without rows.
func TestAScanOfAllTenantsFindsTheWindow(t *testing.T) {
	var all [][16]byte // oldest first
	for i := range 1000 {
		all = append(all, eventhook.FirstID[eventhook.Event](noon.Add(time.Duration(i)*time.Millisecond)))
	}
	now := noon.Add(365 * 24 * time.Hour)
	s := scan{scanLimits: scanLimits{step: 50, rows: 1 << 20, time: time.Hour}, limit: 120, now: func() time.Time { return now }, window: firstWindow}
	steps := 0
	s.read = func(_ context.Context, from, before [16]byte, rows int) (step scanStep, err error) {
		steps++
		for _, id := range slices.Backward(all) {
			if bytes.Compare(id[:], from[:]) < 0 || bytes.Compare(id[:], before[:]) >= 0 {
				continue
			}
			if step.examined++; step.examined > rows {
				return scanStep{examined: step.examined}, nil
			}
			step.rows = append(step.rows, rowKey{id: id})
		}
		return step, nil
	}
	var got [][16]byte
	before := [16]byte(bytes.Repeat([]byte{0xff}, 16))
	for {
		out, err := s.run(t.Context(), [16]byte{}, before)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range out.rows {
			got = append(got, r.id)
		}
		if before = out.next; before == [16]byte{} {
			break
		}
	}
	slices.Reverse(got)
	same(t, "rows", got, all)
	if steps > 500 {
		t.Errorf("%d steps, want at most 500", steps)
	}
}
