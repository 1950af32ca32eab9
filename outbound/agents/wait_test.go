package agents_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventhook/eventhook"
)

// isWoken reports whether a channel of Wake was closed.
func isWoken(c <-chan struct{}) bool {
	synctest.Wait()
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestADueDeliveryWakesTheAgentsThatServeIt(t *testing.T) {
	run(t, func(f *fixture) {
		to := f.add(&transport{}, "env:prod", "region:eu")
		yes, no := f.Wake(f.agent), f.Wake(f.other)
		time.Sleep(5 * time.Second)
		if isWoken(yes) {
			f.Error("the agent was woken without a delivery")
		}
		f.store(to, 1)
		if !isWoken(yes) {
			f.Error("the agent was not woken")
		}
		if isWoken(no) {
			f.Error("an agent without the labels was woken")
		}
	})
}

func TestAFreeSlotWakesAgents(t *testing.T) {
	run(t, func(f *fixture) {
		to := f.add(&transport{}, "env:prod")
		f.store(to, 10)
		list := f.claim(f.agent, 10)
		woken := f.Wake(f.other)
		time.Sleep(100 * time.Millisecond)
		if isWoken(woken) {
			f.Fatal("woken while all slots are held")
		}
		if err := f.report(f.agent, 200, list[0]); err != nil {
			f.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
		if !isWoken(woken) {
			f.Error("not woken by a free slot")
		}
	})
}

func TestARetryWakesAgentsWhenItIsDue(t *testing.T) {
	run(t, func(f *fixture) {
		to := f.add(&transport{}, "env:prod")
		f.store(to, 1)
		if err := f.report(f.agent, 503, f.claim(f.agent, 1)...); err != nil {
			f.Fatal(err)
		}
		woken, began := f.Wake(f.agent), time.Now()
		<-woken
		if took := time.Since(began); took < 900*time.Millisecond || took > 1100*time.Millisecond {
			f.Errorf("woken after %s, want the first retry after 1 s", took)
		}
	})
}

func TestWaitingAgentsCostOneQueryForAll(t *testing.T) {
	run(t, func(f *fixture) {
		for i := range 1000 {
			f.add(&transport{}, fmt.Sprintf("host:h%d", i))
			f.Wake(eventhook.Agent{ID: eventhook.AgentID{byte(i), byte(i >> 8)}, TenantID: f.tenant, Labels: []string{fmt.Sprintf("host:h%d", i)}})
		}
		f.queue.set(func(q *queue) { q.looks = 0 })
		time.Sleep(10 * time.Second)
		f.queue.set(func(q *queue) {
			if q.looks < 9 || q.looks > 11 {
				f.Errorf("%d queries in 10 s, want one at each poll interval of 1 s", q.looks)
			}
		})
		time.Sleep(2 * time.Minute)
		f.queue.set(func(q *queue) { q.looks = 0 })
		time.Sleep(10 * time.Second)
		f.queue.set(func(q *queue) {
			if q.looks != 0 {
				f.Errorf("%d queries after the agents have gone, want none", q.looks)
			}
		})
		if n := f.Waiting(); n != 0 {
			f.Errorf("%d sets of labels are in memory, want none", n)
		}
	})
}

func TestOneDeliveryWakesOneOfManyAgents(t *testing.T) {
	run(t, func(f *fixture) {
		to := f.add(&transport{}, "env:prod")
		var wakes []<-chan struct{}
		for i := range 100 {
			wakes = append(wakes, f.Wake(eventhook.Agent{TenantID: f.tenant, Labels: []string{"env:prod", fmt.Sprintf("host:h%d", i)}}))
			time.Sleep(time.Millisecond)
		}
		woken := func() (n int) {
			for _, c := range wakes {
				if isWoken(c) {
					n++
				}
			}
			return n
		}
		f.store(to, 1)
		if n := woken(); n != 1 || !isWoken(wakes[0]) {
			f.Errorf("one delivery woke %d claims, want the one that has waited longest", n)
		}
		f.claim(f.agent, 1)
		f.Leave(eventhook.Agent{TenantID: f.tenant, Labels: []string{"host:h1", "env:prod"}})
		if !isWoken(wakes[1]) {
			f.Error("Leave did not close the channel")
		}
		f.store(to, 1)
		time.Sleep(30 * time.Millisecond)
		if !isWoken(wakes[2]) {
			f.Error("the next delivery did not wake the next claim")
		}
	})
}

// A destination with a rate has no reserved sends while nothing is due: a delivery must wake its agents,
// and the agents must not look for deliveries by themselves.
func TestADeliveryOfADestinationWithARateWakesAgents(t *testing.T) {
	run(t, func(f *fixture) {
		to := f.add(&transport{}, "env:prod")
		f.destinations[0].PerSecond = 5
		woken := f.Wake(f.agent)
		list, next, err := f.Claim(f.Context(), f.agent, eventhook.AgentClaim{Max: 10, Lease: lease})
		if err != nil || len(list) != 0 || !next.IsZero() {
			f.Fatalf("claimed %v, next %v, %v; want nothing, and no claim without a wake-up", list, next, err)
		}
		time.Sleep(5 * time.Second)
		if isWoken(woken) {
			f.Fatal("woken without a delivery")
		}
		f.store(to, 1)
		time.Sleep(30 * time.Millisecond) // the last look may have been just before
		if !isWoken(woken) {
			f.Error("the delivery woke no agent")
		}
	})
}
