package match_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventhook/eventhook"
)

func TestTheSteadyStateReadsNoSubscriptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newStore(subscriber("a", "*", ""))
		r := o.rosters()
		for range 50 {
			generation, matched, err := r.Match(t.Context(), news("push", ""))
			if generation != 1 || len(matched) != 1 || err != nil {
				t.Fatalf("got generation %d, %v, %v; want 1 and a", generation, namesOf(matched), err)
			}
			time.Sleep(time.Second)
		}
		if o.reads != 1 {
			t.Errorf("reads: got %d, want 1", o.reads)
		}
		for range 50 {
			if _, none, err := r.Match(t.Context(), &eventhook.Event{TenantID: eventhook.TenantID{1}}); len(none) > 0 || err != nil {
				t.Fatalf("another tenant: got %v, %v, want nobody", namesOf(none), err)
			}
		}
		if o.reads != 2 {
			t.Errorf("reads: got %d, want 2", o.reads)
		}
	})
}

func TestChangesOfSubscriptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newStore(subscriber("a", "*", ""))
		r := o.rosters()
		want := func(claim, want string) {
			t.Helper()
			if _, matched, err := r.Match(t.Context(), news("push", "")); strings.Join(namesOf(matched), ",") != want || err != nil {
				t.Errorf("%s: got %v, %v; want %s", claim, namesOf(matched), err, want)
			}
		}
		want("at first", "a")
		o.add(subscriber("b", "*", ""))
		want("not told yet", "a")
		r.Invalidate(eventhook.TenantID{1})
		want("another's was told", "a")
		r.Invalidate(acme)
		want("told", "a,b")
		o.add(subscriber("c", "*", ""))
		r.InvalidateAll()
		want("all forgotten", "a,b,c")
		o.add(subscriber("d", "*", ""))
		time.Sleep(10 * time.Minute)
		want("never told, ten minutes later", "a,b,c,d")
		o.err = errDown
		time.Sleep(10 * time.Minute)
		want("while the database is down", "a,b,c,d")
		r.InvalidateAll()
		if _, _, err := r.Match(t.Context(), news("push", "")); !errors.Is(err, errDown) {
			t.Errorf("nothing kept, and the database is down: got %v, want that", err)
		}
	})
}

// The dispatcher gives up what waits for a subscription that is gone, so one
// that was only made a moment ago must be found.
func TestANewSubscriptionOfAnotherInstanceIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := subscriber("a", "*", ""), subscriber("b", "", "")
		b.Status = eventhook.SubscriptionDisabled
		o := newStore(a)
		r := o.rosters()
		first, err := r.Subscription(t.Context(), acme, a.ID)
		if err != nil || first.Name != "a" {
			t.Fatalf("got %v, %v; want a", first, err)
		}
		if again, err := r.Subscription(t.Context(), acme, a.ID); again != first || err != nil {
			t.Errorf("again: got %p, %v; want the same, %p", again, err, first)
		}
		o.add(b)
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				if s, err := r.Subscription(t.Context(), acme, b.ID); err != nil || s.Name != "b" {
					t.Errorf("made and not told: got %v, %v; want b", s, err)
				}
			})
		}
		all.Wait()
		if o.reads > 3 {
			t.Errorf("reads: got %d, want few", o.reads)
		}
		before := o.reads
		for range 20 {
			if _, err := r.Subscription(t.Context(), acme, eventhook.SubscriptionID{1}); eventhook.KindOf(err) != eventhook.KindNotFound {
				t.Errorf("one that is gone: got %v, want KindNotFound", err)
			}
		}
		if o.reads != before+1 {
			t.Errorf("reads for one that is gone: got %d, want 1", o.reads-before)
		}
		o.err = errDown
		if _, err := r.Subscription(t.Context(), acme, eventhook.SubscriptionID{2}); !errors.Is(err, errDown) {
			t.Errorf("while the database is down: got %v, want that", err)
		}
	})
}

func TestAFilterThatCannotBeUsedIsLoggedOnce(t *testing.T) {
	o := newStore(subscriber("a", "*", `{"$near":1}`), subscriber("b", "*", ""))
	r := o.rosters()
	for range 10 {
		if _, matched, err := r.Match(t.Context(), news("push", "")); len(matched) != 1 || err != nil {
			t.Fatalf("got %v, %v; want b alone", namesOf(matched), err)
		}
	}
	if n := strings.Count(o.logged.String(), "cannot be used"); n != 1 {
		t.Errorf("told %d times, want once: %s", n, o.logged)
	}
}
