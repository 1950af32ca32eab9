package ingest_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/ingest"
)

// batcherFixture is a running Batcher in a synctest bubble.
type batcherFixture struct {
	store   *store
	handoff *handoff
	batcher *ingest.Batcher
	stop    context.CancelFunc
	ended   chan struct{}
	gate    chan struct{}
}

func newBatcherFixture(t *testing.T, changes ...func(*ingest.Config)) *batcherFixture {
	t.Helper()
	c := testConfig()
	c.Writers = 1
	for _, change := range changes {
		change(&c)
	}
	f := &batcherFixture{store: newStore(), handoff: &handoff{slots: 1 << 30}, ended: make(chan struct{}), gate: make(chan struct{})}
	f.store.gate = f.gate
	f.batcher = ingest.NewBatcher(c, lease, f.store, f.handoff, &observer{}, slog.New(slog.DiscardHandler), time.Now)
	var ctx context.Context
	ctx, f.stop = context.WithCancel(t.Context())
	go func() {
		defer close(f.ended)
		if err := f.batcher.Run(ctx); err != nil {
			t.Errorf("Run: %v, want nil", err)
		}
	}()
	t.Cleanup(func() { f.handoff.check(t) })
	return f
}

func event(body string) *eventhook.Event {
	return &eventhook.Event{ID: eventhook.NewID[eventhook.Event](noon), BodySize: len(body), Payload: eventhook.Payload{Body: []byte(body)}}
}

// accept starts an Accept for each event, in order, and returns the slice that gets the
// results. A result is errNoAnswer until its Accept returns.
func (f *batcherFixture) accept(events ...*eventhook.Event) []error {
	results := make([]error, len(events))
	for i, e := range events {
		results[i] = errNoAnswer
		go func() { results[i] = f.batcher.Accept(e) }()
		synctest.Wait()
	}
	return results
}

var errNoAnswer = &eventhook.Error{Message: "no answer"}

// commit lets one commit complete.
func (f *batcherFixture) commit() {
	f.gate <- struct{}{}
	synctest.Wait()
}

// end stops the Batcher and lets all commits complete.
func (f *batcherFixture) end() {
	close(f.gate)
	f.stop()
	<-f.ended
	synctest.Wait()
}

func repeated(n int, body string) []*eventhook.Event {
	list := make([]*eventhook.Event, n)
	for i := range list {
		list[i] = event(body)
	}
	return list
}

func wantErrors(t *testing.T, claim string, got []error, want error) {
	t.Helper()
	for i, err := range got {
		if err != want {
			t.Errorf("%s: event %d got %v, want %v", claim, i, err, want)
		}
	}
}

func wantShed(t *testing.T, got []error) {
	t.Helper()
	for i, err := range got {
		if eventhook.KindOf(err) != eventhook.KindUnavailable {
			t.Errorf("event %d got %v, want KindUnavailable", i, err)
		}
	}
}

func TestEventsThatArriveDuringACommitShareTheNextOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBatcherFixture(t)
		first := f.accept(event("a"))
		others := f.accept(repeated(5, "b")...)
		wantErrors(t, "before any commit", append(first, others...), errNoAnswer)
		f.commit()
		wantErrors(t, "the first", first, nil)
		wantErrors(t, "the others", others, errNoAnswer)
		f.commit()
		wantErrors(t, "the others", others, nil)
		f.end()
		if diff := cmp.Diff([]int{1, 5}, f.store.committed()); diff != "" {
			t.Errorf("commits (-want +got):\n%s", diff)
		}
	})
}

func TestSmallEventsDoNotWaitForLargeOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBatcherFixture(t)
		large := f.accept(repeated(2, strings.Repeat("x", 300<<10))...)
		small := f.accept(event("a"))
		// The gate serves commits in the order in which they began: the first large
		// event, and beside it the small one.
		f.commit()
		f.commit()
		wantErrors(t, "the first large event", large[:1], nil)
		wantErrors(t, "the small event", small, nil)
		wantErrors(t, "the second large event", large[1:], errNoAnswer)
		f.end()
		wantErrors(t, "the second large event after the stop", large[1:], nil)
	})
}

func TestBatchesAreBounded(t *testing.T) {
	for _, c := range []struct {
		claim  string
		change func(*ingest.Config)
		sizes  []int
		want   []int
	}{
		{"limited by number", func(c *ingest.Config) { c.BatchEvents = 2 }, []int{1, 1, 1, 1, 1, 1}, []int{1, 2, 2, 1}},
		{"limited by bytes", func(c *ingest.Config) { c.BatchBytes = 10 }, []int{1, 5, 5, 1, 10, 9, 1}, []int{1, 2, 1, 1, 2}},
		{"one event above the limit", func(c *ingest.Config) { c.BatchBytes = 10 }, []int{1, 11, 11, 5}, []int{1, 1, 1, 1}},
	} {
		t.Run(c.claim, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newBatcherFixture(t, c.change)
				results := f.accept(sized(c.sizes)...)
				f.end()
				wantErrors(t, "all", results, nil)
				if diff := cmp.Diff(c.want, f.store.committed()); diff != "" {
					t.Errorf("commits (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestACommitBeginsBesideAnotherOnlyIfItIsLarge(t *testing.T) {
	for _, c := range []struct {
		claim    string
		change   func(*ingest.Config)
		sizes    []int
		underWay int
	}{
		{"commits do not overlap by default", func(c *ingest.Config) { c.Writers = 3 }, []int{1, 1, 1, 1, 1}, 1},
		{"the next batch has enough events", func(c *ingest.Config) { c.Writers, c.OverlapEvents = 3, 3 }, []int{1, 1, 1, 1, 1, 1}, 4},
		{"at most one commit per writer", func(c *ingest.Config) { c.Writers, c.OverlapEvents = 3, 1 }, []int{1, 1, 1, 1, 1}, 3},
		{"the next batch is full", func(c *ingest.Config) { c.Writers, c.BatchBytes = 2, 10 }, []int{1, 5, 5, 5}, 3},
		{"there is no other writer", func(c *ingest.Config) { c.Writers, c.OverlapEvents = 1, 1 }, []int{1, 1, 1}, 1},
	} {
		t.Run(c.claim, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newBatcherFixture(t, c.change)
				results := f.accept(sized(c.sizes)...)
				wantCount(t, "events being committed", f.handoff.granted, c.underWay)
				f.end()
				wantErrors(t, "all", results, nil)
			})
		})
	}
}

func TestASlowCommitDoesNotDelayTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBatcherFixture(t, func(c *ingest.Config) { c.Writers = 2 })
		results := f.accept(event("a"), event("b"), event("c"))
		wantCount(t, "events being committed at first", f.handoff.grantedSlots(), 1)
		time.Sleep(25 * time.Millisecond)
		synctest.Wait()
		wantCount(t, "events being committed after the first commit became slow", f.handoff.grantedSlots(), 3)
		f.end()
		wantErrors(t, "all", results, nil)
	})
}

func sized(sizes []int) []*eventhook.Event {
	var events []*eventhook.Event
	for _, size := range sizes {
		events = append(events, event(strings.Repeat("x", size)))
	}
	return events
}

func TestTheQueueIsBounded(t *testing.T) {
	for _, c := range []struct {
		claim  string
		change func(*ingest.Config)
		size   int
		wait   int
	}{
		{"limited by number", func(c *ingest.Config) { c.QueueEvents = 7 }, 1, 7},
		{"limited by bytes", func(c *ingest.Config) { c.QueueBytes = 10 }, 3, 3},
		{"one event above the limit", func(c *ingest.Config) { c.QueueBytes = 10 }, 11, 1},
	} {
		t.Run(c.claim, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newBatcherFixture(t, c.change)
				body := strings.Repeat("x", c.size)
				committing := f.accept(event(body))
				waiting := f.accept(repeated(c.wait, body)...)
				wantShed(t, f.accept(repeated(3, body)...))
				f.commit()
				wantErrors(t, "after a commit the queue has space", f.accept(event(body)), errNoAnswer)
				f.end()
				wantErrors(t, "the accepted events", append(committing, waiting...), nil)
				wantCount(t, "stored", len(f.store.stored()), c.wait+2)
			})
		})
	}
}

func TestAFailedCommitFailsOnlyItsOwnEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBatcherFixture(t)
		good := f.accept(event("a"))
		bad := f.accept(repeated(3, "b")...)
		f.commit()
		f.store.set(func(s *store) { s.err = errDown })
		later := f.accept(event("c"))
		f.commit()
		f.store.set(func(s *store) { s.err = nil })
		f.end()
		wantErrors(t, "the batch before", good, nil)
		wantErrors(t, "the batch after", later, nil)
		for i, err := range bad {
			if err == nil || eventhook.KindOf(err) != "" || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("event %d of the failed batch got %v, want an error of no kind and no internals", i, err)
			}
		}
	})
}

// The log lines about failed commits are rate-limited.
func TestFailedCommitsLogFewLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const commits = 200
		var written logBuffer
		s := newStore()
		s.err = errDown
		b := ingest.NewBatcher(testConfig(), lease, s, &handoff{slots: 1 << 30}, &observer{}, slog.New(slog.NewTextHandler(&written, nil)), time.Now)
		ctx, stop := context.WithCancel(t.Context())
		var loop sync.WaitGroup
		loop.Go(func() { _ = b.Run(ctx) })
		for range commits {
			if err := b.Accept(event("a")); err == nil {
				t.Fatal("an event was stored without a database")
			}
		}
		stop()
		loop.Wait()
		if n := strings.Count(written.String(), "\n"); n == 0 || n > commits/5 {
			t.Errorf("%d failed commits logged %d lines, want a few", commits, n)
		}
	})
}

func TestARefusedEventDoesNotFailItsBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBatcherFixture(t)
		f.store.refuse = func(e *eventhook.Event) bool { return string(e.Body) == "poison" }
		f.accept(event("a"))
		results := f.accept(event("b"), event("poison"), event("c"))
		f.end()
		wantErrors(t, "the other events", []error{results[0], results[2]}, nil)
		if results[1] == nil || eventhook.KindOf(results[1]) != "" {
			t.Errorf("the refused event got %v, want an error of no kind", results[1])
		}
	})
}

func TestAStopCommitsTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBatcherFixture(t, func(c *ingest.Config) { c.BatchEvents = 2 })
		results := f.accept(repeated(6, "a")...)
		f.stop()
		synctest.Wait()
		wantErrors(t, "while the commit runs", results, errNoAnswer)
		late := f.accept(event("late")) // the Batcher is still stopping
		f.end()
		wantErrors(t, "all queued events", results, nil)
		wantErrors(t, "an event that arrived before the end", late, nil)
		wantShed(t, f.accept(repeated(2, "b")...))
		wantCount(t, "stored", len(f.store.stored()), 7)
	})
}

func TestAHangingStoreTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBatcherFixture(t, func(c *ingest.Config) { c.CommitTimeout = 3 * time.Second })
		began := time.Now()
		if err := f.batcher.Accept(event("a")); err == nil || eventhook.KindOf(err) != "" {
			t.Errorf("got %v, want an error of no kind", err)
		}
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("it took %s, want 3s", took)
		}
		f.end()
	})
}
