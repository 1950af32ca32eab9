package route

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventhook/eventhook"
)

// storedEvents are events with the bodies {"n":0}, {"n":1} and so on, newest first, a
// second apart.
type storedEvents struct {
	count  int
	delay  time.Duration // of a read
	pages  int
	bodies int // events that were read with their payload
}

func (x *storedEvents) id(n int) eventhook.EventID {
	return eventhook.FirstID[eventhook.Event](time.Unix(int64(10_000_000-n), 0))
}

func (x *storedEvents) read(ctx context.Context, before eventhook.EventID, limit int, needsPayload bool) (list []*eventhook.Event, next eventhook.EventID, err error) {
	x.pages++
	select {
	case <-time.After(x.delay):
	case <-ctx.Done():
		return nil, next, ctx.Err()
	}
	first := 0
	if !before.IsZero() {
		first = 10_000_000 - int(before.Time().Unix()) + 1
	}
	for n := first; n < x.count && len(list) < limit; n++ {
		e := &eventhook.Event{ID: x.id(n), EventType: []string{"even", "odd"}[n%2], ContentType: "application/json"}
		if needsPayload {
			x.bodies++
			e.Payload = eventhook.Payload{Headers: []byte{}, Body: fmt.Appendf(nil, `{"n":%d}`, n)}
		}
		list, next = append(list, e), e.ID
	}
	if len(list) < limit {
		next = eventhook.EventID{}
	}
	return list, next, nil
}

// searchAll continues a search to its end.
func (x *storedEvents) searchAll(t *testing.T, filter string) (found []eventhook.EventID, results []SearchResult) {
	t.Helper()
	o := SearchOptions{CPULimiter: newLimiter(), Read: x.read, Filter: []byte(filter), Limit: 3}
	for {
		r, err := Search(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		found, results = append(found, r.IDs...), append(results, r)
		if o.Before = r.Next; r.Next.IsZero() {
			return found, results
		}
	}
}

func TestSearchFindsEveryEventOnce(t *testing.T) {
	x := &storedEvents{count: 1200}
	found, _ := x.searchAll(t, `{"body.n":{"$in":[0,499,500,501,999,1199,5000]}}`)
	for i, n := range []int{0, 499, 500, 501, 999, 1199} {
		if i >= len(found) || found[i] != x.id(n) {
			t.Fatalf("found %v, want event %d at %d", found, n, i)
		}
	}
	if len(found) != 6 {
		t.Errorf("found %d events, want 6", len(found))
	}
}

func TestSearchReadsNoPayloadThatItsFilterDoesNotNeed(t *testing.T) {
	x := &storedEvents{count: 100}
	if found, _ := x.searchAll(t, `{"event.type":"odd"}`); len(found) != 50 || x.bodies != 0 {
		t.Errorf("found %d events and read %d bodies, want 50 and 0", len(found), x.bodies)
	}
}

// TestASearchThatFindsNothingEndsWithItsBudget: a million events, of which a read of 500
// takes 100 ms.
func TestASearchThatFindsNothingEndsWithItsBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := &storedEvents{count: 1_000_000, delay: 100 * time.Millisecond}
		began := time.Now()
		s, err := newSearch(SearchOptions{CPULimiter: newLimiter(), Read: x.read, Filter: []byte(`{"event.type":"none"}`), Limit: 3})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		r := s.result
		if took := time.Since(began); took > 6*time.Second {
			t.Errorf("the search took %s, want at most 6 s", took)
		}
		if r.Scanned == 0 || r.Next.IsZero() || r.Until != x.id(r.Scanned-1) || r.Next != r.Until {
			t.Errorf("scanned %d events until %v, next %v; want the last scanned event in both", r.Scanned, r.Until.Time(), r.Next.Time())
		}
	})
}

func TestSearchRefusesAFilterWithFaults(t *testing.T) {
	_, err := Search(t.Context(), SearchOptions{Filter: []byte(`{"body.n":{"$near":1}}`)})
	if eventhook.KindOf(err) != eventhook.KindInvalid {
		t.Errorf("got %v, want KindInvalid", err)
	}
}
