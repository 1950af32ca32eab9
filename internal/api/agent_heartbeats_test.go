package api

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventhook/eventhook"
)

// sightings is a store that remembers the size of each batch. If gate is not nil, each write waits
// for it.
type sightings struct {
	mu    sync.Mutex
	gate  chan struct{}
	sizes []int
	err   error
}

func (s *sightings) SeenAgents(_ context.Context, seen []eventhook.AgentSighting) error {
	if s.gate != nil {
		<-s.gate
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sizes = append(s.sizes, len(seen))
	return s.err
}

func runHeartbeats(t *testing.T, store *sightings, do func(*AgentHeartbeats)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := NewAgentHeartbeats(store, time.Now)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _ = h.Run(ctx) }()
		do(h)
		cancel()
		synctest.Wait()
	})
}

func agentAt(n int) eventhook.AgentSighting {
	return eventhook.AgentSighting{ID: eventhook.AgentID{15: byte(n)}, ProgramVersion: "1.0"}
}

func TestClaimsOfAnAgentAreRecordedEvery15Seconds(t *testing.T) {
	store := &sightings{}
	wantWrites := func(claim string, want int) {
		t.Helper()
		if got := len(store.sizes); got != want {
			t.Errorf("%s: %d writes, want %d", claim, got, want)
		}
	}
	runHeartbeats(t, store, func(h *AgentHeartbeats) {
		see := func(s eventhook.AgentSighting) {
			if err := h.seen(s); err != nil {
				t.Error(err)
			}
		}
		see(agentAt(1))
		see(agentAt(1))
		wantWrites("two claims at once", 1)
		time.Sleep(eventhook.AgentSeenEvery - time.Second)
		see(agentAt(1))
		wantWrites("a claim after 14 s", 1)
		time.Sleep(time.Second)
		see(agentAt(1))
		wantWrites("a claim after 15 s", 2)
		see(eventhook.AgentSighting{ID: agentAt(1).ID, ProgramVersion: "1.1"})
		wantWrites("a new version", 3)
		store.err = errors.New("the database is down")
		if err := h.seen(agentAt(2)); !errors.Is(err, store.err) {
			t.Errorf("a failed write: got %v, want the error of the store", err)
		}
		store.err = nil
		see(agentAt(2))
		wantWrites("a claim after a failed write", 5)
	})
}

func TestClaimsOfManyAgentsAreRecordedTogether(t *testing.T) {
	store := &sightings{}
	runHeartbeats(t, store, func(h *AgentHeartbeats) {
		const agents = 200
		store.gate = make(chan struct{})
		for n := range agents {
			go func() { _ = h.seen(agentAt(n)) }()
		}
		synctest.Wait()
		close(store.gate)
		synctest.Wait()
		all := 0
		for _, n := range store.sizes {
			all += n
		}
		if all != agents || len(store.sizes) > 5 {
			t.Errorf("%d claims in %d writes, want %d in a few", all, len(store.sizes), agents)
		}
	})
}

func TestTheVersionOfAnAgentsProgram(t *testing.T) {
	for _, c := range []struct{ stated, userAgent, want string }{
		{"1.2", "curl/8", "1.2"},
		{"", "curl/8", ""},
		{"", "eventhook-agent/1.3 (linux)", "1.3"},
		{"1.2", "eventhook-agent/1.3", "1.2"},
		{strings.Repeat("9", 63) + "é", "", strings.Repeat("9", 63)},
		{"a\x00b", "", `a\x00b`},
	} {
		got := sightingOf(eventhook.AgentID{1}, c.stated, c.userAgent)
		if want := (eventhook.AgentSighting{ID: eventhook.AgentID{1}, ProgramVersion: c.want}); got != want {
			t.Errorf("%s: got %q, want %q", fmt.Sprint(c), got.ProgramVersion, c.want)
		}
	}
}
