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
		r := o.subscriptionCache()
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
				t.Fatalf("another tenant: got %v, %v, want no subscription", namesOf(none), err)
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
		r := o.subscriptionCache()
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
			t.Errorf("empty cache during an outage: got %v, want the error of the store", err)
		}
	})
}

// The dispatcher abandons the deliveries of a subscription that does not exist. The cache must
// therefore find a subscription that another instance has just created.
func TestANewSubscriptionOfAnotherInstanceIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := subscriber("a", "*", ""), subscriber("b", "", "")
		b.Status = eventhook.SubscriptionDisabled
		o := newStore(a)
		r := o.subscriptionCache()
		first, err := r.Subscription(t.Context(), acme, a.ID)
		if err != nil || first.Name != "a" {
			t.Fatalf("got %v, %v; want a", first, err)
		}
		if again, err := r.Subscription(t.Context(), acme, a.ID); again != first || err != nil {
			t.Errorf("second call: got %p, %v; want the same pointer %p", again, err, first)
		}
		o.add(b)
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				if s, err := r.Subscription(t.Context(), acme, b.ID); err != nil || s.Name != "b" {
					t.Errorf("created without a notification: got %v, %v; want b", s, err)
				}
			})
		}
		all.Wait()
		if o.reads != 3 { // the tenant's twice, the operator's once
			t.Errorf("got %d reads, want 3", o.reads)
		}
		before := o.reads
		for range 20 {
			if _, err := r.Subscription(t.Context(), acme, eventhook.SubscriptionID{1}); eventhook.KindOf(err) != eventhook.KindNotFound {
				t.Errorf("deleted subscription: got %v, want KindNotFound", err)
			}
		}
		if o.reads != before+2 { // the tenant's again, and the operator's
			t.Errorf("deleted subscription: got %d reads, want 2", o.reads-before)
		}
		o.err = errDown
		if _, err := r.Subscription(t.Context(), acme, eventhook.SubscriptionID{2}); !errors.Is(err, errDown) {
			t.Errorf("during an outage: got %v, want the error of the store", err)
		}
	})
}

func TestAFilterThatCannotBeUsedIsLoggedOnce(t *testing.T) {
	o := newStore(subscriber("a", "*", `{"$near":1}`), subscriber("b", "*", ""))
	r := o.subscriptionCache()
	for range 10 {
		if _, matched, err := r.Match(t.Context(), news("push", "")); len(matched) != 1 || err != nil {
			t.Fatalf("got %v, %v; want b only", namesOf(matched), err)
		}
	}
	if n := strings.Count(o.logged.String(), "cannot be used"); n != 1 {
		t.Errorf("logged %d times, want once: %s", n, o.logged)
	}
}
