package ingest_test

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/ingest"
)

// brokenLog is a log whose acknowledgements get lost, or that answers with an error.
type brokenLog struct{ err error }

func (l brokenLog) Append(context.Context, *eventhook.Event) error {
	return cmp.Or(l.err, errors.New("no acknowledgement"))
}

func (brokenLog) Fits(*eventhook.Event) bool { return true }

// The database refuses the id of an event that an instance has stored from the log before.
func TestAnEventThatTheLogHasStoredIsAccepted(t *testing.T) {
	for claim, c := range map[string]struct {
		isStored bool
		err      error
		want     func(error) bool
	}{
		"it is stored":      {true, nil, func(err error) bool { return err == nil }},
		"it is not stored":  {false, nil, func(err error) bool { return err != nil && eventhook.KindOf(err) == "" }},
		"this is not known": {false, errDown, func(err error) bool { return eventhook.KindOf(err) == eventhook.KindUnavailable }},
	} {
		t.Run(claim, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newBatcherFixture(t)
				f.store.refuse = func(*eventhook.Event) bool { return true }
				config := ingest.DefaultLogConfig()
				config.WhenUnavailable = ingest.LogDatabase
				front := ingest.NewLogFront(config, brokenLog{}, f.batcher, func(_ context.Context, ids []eventhook.EventID) (map[eventhook.EventID]bool, error) {
					return map[eventhook.EventID]bool{ids[0]: c.isStored}, c.err
				}, 1, func(string, time.Duration) {}, time.Now)
				result := make(chan error, 1)
				go func() { result <- front.Accept(event("{}")) }()
				synctest.Wait()
				f.commit()
				if err := <-result; !c.want(err) {
					t.Errorf("got %v", err)
				}
				f.end()
			})
		})
	}
}

func TestTheLogLineNamesTheFaultOfTheLog(t *testing.T) {
	for claim, c := range map[string]struct {
		log     brokenLog
		outcome ingest.Outcome
		line    string
		retry   string
	}{
		"it is full":              {brokenLog{ingest.ErrLogFull}, ingest.OutcomeLogFull, `"outcome":"log_full"`, "10"},
		"it does not acknowledge": {brokenLog{}, ingest.OutcomeShed, "no acknowledgement", "5"},
	} {
		t.Run(claim, func(t *testing.T) {
			r := newFixture(t, c.log)
			w := r.wantStatus(t, webhook(`{"id":1}`), http.StatusServiceUnavailable)
			if got := w.Header().Get("Retry-After"); got != c.retry {
				t.Errorf("Retry-After is %q, want %q", got, c.retry)
			}
			wantCount(t, string(c.outcome), r.observer.outcomes[c.outcome], 1)
			if log := r.log.String(); !strings.Contains(log, c.line) {
				t.Errorf("got the log %s, want %s", log, c.line)
			}
		})
	}
}

func TestTheURLOfALogHasAPossiblePort(t *testing.T) {
	for url, want := range map[string]int{"nats://a:4222,nats://b": 0, "nats://127.0.0.1:99999": 1, "nats://a:4222,tls://b:0": 1} {
		c := ingest.DefaultLogConfig()
		c.URL = url
		if faults := c.Validate(); len(faults) != want {
			t.Errorf("%s: got %v, want %d faults", url, faults, want)
		}
	}
}

// A former attempt to store an event had a lease for it.
func TestAnEventIsStoredAgainWithoutItsFormerLease(t *testing.T) {
	handoff, s := &handoff{slots: 1}, newStore()
	b := ingest.NewBatcher(testConfig(), lease, s, handoff, &observer{}, slog.New(slog.DiscardHandler), time.Now)
	e := event("{}")
	s.err = errDown
	if err := b.Store([]*eventhook.Event{e}); err == nil {
		t.Fatal("got no error")
	}
	s.err, handoff.slots = nil, 0
	if err := b.Store([]*eventhook.Event{e}); err != nil {
		t.Fatal(err)
	}
	if got := s.stored()[0]; got.Status != eventhook.EventPending || !got.Lease.Until.IsZero() {
		t.Errorf("got the status %q and a lease until %s, want a pending event without a lease", got.Status, got.Lease.Until)
	}
	handoff.check(t)
}
