package route_test

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/effects"
	"github.com/eventhook/eventhook/route"
)

// handOverTo accepts n events of a tenant whose source goes to a place.
func (b *rig) handOverTo(n int, tenant byte, place string) {
	b.t.Helper()
	source := byte(0)
	for _, r := range place {
		source += byte(r)
	}
	r := newRoute(place, "", place)
	r.ID = eventhook.RouteID{tenant, source}
	b.handOverOf(n, tenant, source, r)
}

func TestADeadPlaceDelaysNobodyElse(t *testing.T) {
	inBubble(t, roomy, func(t *testing.T, b *rig) {
		b.places(map[string]func(context.Context) error{"dead": hangs, "other": answers(10 * time.Millisecond), "theirs": answers(10 * time.Millisecond)})
		b.run()
		for range 5 {
			b.handOverTo(100, mean, "dead")
		}
		for n := 1; n <= 30; n++ {
			b.handOverTo(1, mean, "other")
			b.handOverTo(1, brisk, "theirs")
			b.pass(10 * time.Millisecond)
			if got := b.delivered(mean); got != n {
				t.Fatalf("%d calls of the tenant's other route: %d delivered, want all at once", n, got)
			}
			if got := b.delivered(brisk); got != n {
				t.Fatalf("%d calls of another tenant: %d delivered, want all at once", n, got)
			}
			b.pass(3 * time.Second)
		}
	})
}

// Many that are dead leave room for one who is not, as long as there is any.
func TestManyDeadPlacesLeaveRoom(t *testing.T) {
	inBubble(t, roomy, func(t *testing.T, b *rig) {
		p := b.places(map[string]func(context.Context) error{"dead": hangs, "theirs": answers(10 * time.Millisecond)})
		b.run()
		for tenant := range 20 {
			b.handOverTo(40, byte(100+tenant), "dead")
		}
		synctest.Wait()
		b.handOverTo(5, brisk, "theirs")
		b.pass(50 * time.Millisecond)
		if got := b.delivered(brisk); got != 5 {
			t.Errorf("got %d delivered beside 20 tenants with dead places, want 5 soon", got)
		}
		if _, _, got := p.look(""); got > 64 {
			t.Errorf("got %d calls at once, want at most 64", got)
		}
	})
}

func TestATenantsSlowRoutesLeaveRoomToItsQuickOne(t *testing.T) {
	inBubble(t, roomy, func(t *testing.T, b *rig) {
		p := b.places(map[string]func(context.Context) error{"a": hangs, "b": hangs, "c": hangs, "d": hangs, "quick": answers(10 * time.Millisecond)})
		b.run()
		for _, slow := range []string{"a", "b", "c", "d"} {
			b.handOverTo(120, mean, slow) // more than the tenant's quarter of 2000/2
		}
		for n := 1; n <= 10; n++ {
			b.handOverTo(1, mean, "quick")
			b.pass(20 * time.Millisecond)
			if got := b.delivered(mean); got != n {
				_, under, _ := p.look("")
				t.Fatalf("call %d beside %d slow ones: %d delivered, want all at once", n, under, got)
			}
			b.pass(2 * time.Second)
		}
	})
}

// What has no room is written once, with the time at which to ask again.
func TestCallsWithoutRoomAreAskedForOneAfterTheOther(t *testing.T) {
	inBubble(t, roomy, func(t *testing.T, b *rig) {
		b.places(map[string]func(context.Context) error{"dead": hangs})
		b.run()
		const all, room = 400, 125 // 2000/2/8 and, at most, those that had their turn meanwhile
		b.handOverTo(all, mean, "dead")
		synctest.Wait()
		began := time.Now()
		b.set(func(q *queue) {
			written := 0
			for _, n := range q.batches {
				written += n
			}
			if written != all {
				t.Errorf("got %d events written, want each once", written)
			}
			var waits []time.Duration
			for _, id := range q.order {
				if wait := q.rows[id].due.Sub(began); wait < lease+callTime {
					waits = append(waits, wait)
				}
			}
			if got := len(waits); got < all-room-9 || got > all-room || b.deferred != got {
				t.Fatalf("got %d sent away, %d told; want %d or a few less", got, b.deferred, all-room)
			}
			for i, wait := range waits {
				if want := lease + time.Duration(i)*10*time.Millisecond; wait != want {
					t.Fatalf("event %d comes back after %s, want after %s", i, wait, want)
				}
			}
		})
		if log := b.log.String(); !strings.Contains(log, "most_of_tenant="+(eventhook.TenantID{mean}).String()) {
			t.Errorf("got the log %s, want it to name the tenant", log)
		}
	})
}

func TestCallsWithoutATurnInTimeAreAskedForLater(t *testing.T) {
	inBubble(t, roomy, func(t *testing.T, b *rig) {
		b.places(map[string]func(context.Context) error{"dead": func(ctx context.Context) error {
			return &effects.CallError{Message: hangs(ctx).Error(), Permanent: true}
		}})
		b.run()
		const all = 60
		b.handOverTo(all, mean, "dead")
		b.pass(lease + time.Second) // a second ago the last have ended that there was time for
		late := b.statuses()[eventhook.EventProcessing]
		b.set(func(q *queue) {
			if late == 0 || late == all || b.deferred != late {
				t.Errorf("got %d of %d without a turn, %d told; want some", late, all, b.deferred)
			}
			for _, r := range q.rows {
				if wait := time.Until(r.due); r.Status == eventhook.EventProcessing && (wait < lease-time.Second || wait > lease) {
					t.Errorf("one comes back after %s, want it after %s and what is left of a second", wait, lease-time.Second)
				}
			}
		})
	})
}

func TestCallsGoOnSoonWhenAPlaceIsWellAgain(t *testing.T) {
	inBubble(t, roomy, func(t *testing.T, b *rig) {
		var isWell atomic.Bool
		b.places(map[string]func(context.Context) error{"ill": func(ctx context.Context) error {
			if !isWell.Load() {
				return hangs(ctx)
			}
			return nil
		}})
		b.run()
		b.handOverTo(1500, mean, "ill")
		b.pass(3 * time.Minute)
		isWell.Store(true)
		b.pass(time.Minute)
		if left := b.statuses()[eventhook.EventProcessing]; left != 0 {
			t.Errorf("got %d events that were not called within a minute, want none", left)
		}
		if got, least := b.delivered(mean), 1000; got < least {
			t.Errorf("got %d delivered, want %d at least", got, least)
		}
	})
}

func TestATenantHasAQuarterOfTheCallsAtOnce(t *testing.T) {
	for _, c := range []struct {
		claim          string
		atOnce, routes int
		least, most    int
	}{
		{"one route has an eighth or so", 64, 1, 8, 9},
		{"two have less than a quarter", 64, 2, 12, 13},
		{"many have one each beyond it", 64, 30, 30, 32},
		{"until it is half", 64, 48, 32, 32},
		{"of few, one", 4, 1, 1, 1},
		{"of few, half with many routes", 4, 3, 2, 2},
		{"of one, it", 1, 3, 1, 1},
	} {
		t.Run(c.claim, func(t *testing.T) {
			inBubble(t, func(config *route.Config) { roomy(config); config.CallsAtOnce = c.atOnce }, func(t *testing.T, b *rig) {
				p := b.places(map[string]func(context.Context) error{"dead": hangs})
				b.run()
				for source := range c.routes {
					r := newRoute("r", "", "dead")
					r.ID = eventhook.RouteID{byte(source)}
					b.handOverOf(240/c.routes, mean, byte(source+1), r)
				}
				synctest.Wait()
				if _, got, _ := p.look(""); got < c.least || got > c.most {
					t.Errorf("got %d calls under way, want %d to %d", got, c.least, c.most)
				}
				b.pass(time.Minute)
				if _, _, got := p.look(""); got > c.most {
					t.Errorf("got %d calls at once later, want at most %d", got, c.most)
				}
			})
		})
	}
}

// What has no room, or waits for so long that its lease would not last, goes
// back to the queue, and is called in the end.
func TestCallsThatCannotBeMadeInTimeWait(t *testing.T) {
	inBubble(t, roomy, func(t *testing.T, b *rig) {
		p := b.places(map[string]func(context.Context) error{"slow": answers(9 * time.Second)})
		b.run()
		b.handOverTo(200, mean, "slow")
		b.pass(10 * time.Minute)
		if got := b.delivered(mean); got != 200 {
			t.Errorf("got %d delivered, want 200", got)
		}
		p.wantMade(map[string]int{"slow": 200})
	})
}

// An event with more calls than its leases have time for comes to its end all
// the same, whether they fail or succeed.
func TestAnEventWithManyCallsEnds(t *testing.T) {
	for _, c := range []struct {
		claim string
		place func(context.Context) error
		want  eventhook.EventStatus
		least int
		most  int
	}{
		{"with success, each once", answers(9 * time.Second), eventhook.EventDelivered, 50, 50},
		{"dead, when its retries are used up", hangs, eventhook.EventDead, 50, 200},
	} {
		t.Run(c.claim, func(t *testing.T) {
			inBubble(t, roomy, func(t *testing.T, b *rig) {
				p := b.places(map[string]func(context.Context) error{"slow": c.place})
				b.run()
				b.handOver(1)
				b.pass(20 * time.Minute)
				b.wantStatuses(states{c.want: 1})
				if made, _, _ := p.look("slow"); made < c.least || made > c.most {
					t.Errorf("got %d calls, want %d to %d", made, c.least, c.most)
				}
			}, newRoute("r", "", slices.Repeat([]string{"slow"}, 50)...))
		})
	}
}

func TestMemoryOfCallsIsBounded(t *testing.T) {
	inBubble(t, func(c *route.Config) { roomy(c); c.InboxEvents = 160 }, func(t *testing.T, b *rig) {
		p := b.places(map[string]func(context.Context) error{"dead": hangs, "theirs": answers(10 * time.Millisecond)})
		b.run()
		for range 3 {
			b.handOverTo(50, mean, "dead")
			synctest.Wait()
		}
		b.pass(callTime - time.Second)
		b.handOverTo(20, brisk, "theirs")
		b.pass(time.Second)
		if got := b.delivered(brisk); got < 10 { // a route's part: 160/2/8
			t.Errorf("got %d delivered of another tenant's, want 10 at least", got)
		}
		const most = 9 + 10     // under way, and a route's part of what waits
		b.pass(9 * time.Second) // the leases end later, and so do the pauses before retries
		if got, _, _ := p.look("dead"); got > most {
			t.Errorf("got %d calls within the first lease, want at most %d", got, most)
		}
	})
}

func TestStopWithCalls(t *testing.T) {
	for _, c := range []struct {
		claim string
		takes time.Duration
		took  time.Duration
		want  states
		made  int
		done  []int
	}{
		{"what ends within the drain is settled", 4 * time.Second, 4 * time.Second, states{eventhook.EventDelivered: 3}, 3, []int{0, 2, 1}},
		{"what does not is given back, and what was answered is kept", 9 * time.Second, 5 * time.Second, states{eventhook.EventProcessing: 3}, 3, []int{0, 2}},
	} {
		t.Run(c.claim, func(t *testing.T) {
			inBubble(t, nil, func(t *testing.T, b *rig) {
				p := b.places(map[string]func(context.Context) error{"slow": answers(c.takes), "brisk": answers(time.Second)})
				b.run()
				b.handOver(3)
				synctest.Wait()
				began := time.Now()
				b.stop()
				if got := time.Since(began); got != c.took {
					t.Errorf("took %s, want %s", got, c.took)
				}
				b.wantStatuses(c.want)
				if got, _, _ := p.look("slow"); got != c.made {
					t.Errorf("got %d slow calls, want %d", got, c.made)
				}
				for i := range 3 {
					if got := len(b.doneOf(i)); got != len(c.done) {
						t.Errorf("done: got %v, want %v", b.doneOf(i), c.done)
					}
					if r := b.rows[b.order[i]]; r.Status == eventhook.EventProcessing && r.due.After(time.Now()) {
						t.Errorf("due in %s, want now", time.Until(r.due))
					}
				}
			}, newRoute("r", "", "ok", "slow", "brisk"))
		})
	}
}

func TestAStopGivesCallsBackThatHadNoTurn(t *testing.T) {
	inBubble(t, roomy, func(t *testing.T, b *rig) {
		b.places(map[string]func(context.Context) error{"dead": hangs})
		b.run()
		b.handOverTo(60, mean, "dead")
		synctest.Wait()
		b.stop()
		b.set(func(q *queue) {
			for _, r := range q.rows {
				if r.Status == eventhook.EventProcessing && r.due.After(time.Now()) {
					t.Errorf("an event is due in %s, want now", time.Until(r.due))
				}
			}
		})
	})
}

// An outcome that cannot be written while the database is away is written when
// it is back, if that is within the lease.
func TestOutcomesWaitForTheDatabase(t *testing.T) {
	inBubble(t, nil, func(_ *testing.T, b *rig) {
		p := b.places(map[string]func(context.Context) error{"slow": answers(2 * time.Second)})
		b.run()
		b.handOver(1)
		synctest.Wait()
		b.set(func(q *queue) { q.refuse = errDown })
		b.pass(10 * time.Second)
		b.set(func(q *queue) { q.refuse = nil })
		b.pass(3 * time.Second)
		b.wantStatuses(states{eventhook.EventDelivered: 1})
		p.wantMade(map[string]int{"slow": 1})
	}, newRoute("r", "", "slow"))
}
