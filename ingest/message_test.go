package ingest_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/consumers"
	"github.com/eventhook/eventhook/ingest"
)

// messageStore is an ingest.MessageStore on a fixture.
type messageStore struct {
	*fixture
	mu       sync.Mutex
	rejected []eventhook.Rejection
	counts   []eventhook.RejectionCount
	err      error // of RecordRejections
	attempts int
}

func (s *messageStore) Store(events []*eventhook.Event) error {
	err := s.batcher.Store(events)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.attempts++
	return err
}

func (s *messageStore) Stored(_ context.Context, ids []eventhook.EventID) (map[eventhook.EventID]bool, error) {
	found := map[eventhook.EventID]bool{}
	for _, e := range s.store.stored() {
		for _, id := range ids {
			found[id] = found[id] || e.ID == id
		}
	}
	return found, nil
}

func (s *messageStore) Ready() error { return s.unfit }

func (s *messageStore) RecordRejections(_ context.Context, last []eventhook.Rejection, counts []eventhook.RejectionCount) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	s.rejected, s.counts = append(s.rejected, last...), append(s.counts, counts...)
	return nil
}

// consuming makes a source consume messages.
func consuming(s *eventhook.Source) {
	if err := consumers.AssignTo(s, eventhook.Target{Type: "kafka"}); err != nil {
		panic(err)
	}
}

func newMessages(t *testing.T, changes ...any) *messageStore {
	return &messageStore{fixture: newFixture(t, append([]any{consuming}, changes...)...)}
}

func messageAt(position, body string, headers ...consumers.Header) *consumers.Message {
	return &consumers.Message{Position: position, Subject: "orders", Key: "k", ContentType: "application/json", Data: []byte(body), Headers: headers}
}

func (s *messageStore) take(ctx context.Context, list ...*consumers.Message) (done int, waits []string, err error) {
	done, err = s.handler.TakeMessages(ctx, ingest.Messages{Tenant: "acme", Source: "crm", List: list,
		Waits: func(reason string, _ int) { waits = append(waits, reason) }}, s)
	return done, waits, err
}

func (s *messageStore) wantTaken(t *testing.T, want int, list ...*consumers.Message) {
	t.Helper()
	if done, waits, err := s.take(t.Context(), list...); done != want || err != nil {
		t.Fatalf("took %d messages (%v, %v), want %d", done, waits, err, want)
	}
}

func TestAMessageBecomesAnEvent(t *testing.T) {
	s := newMessages(t)
	const trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	s.wantTaken(t, 1, messageAt("orders/0/1", `{"id":7}`, consumers.Header{Name: "ce-type", Value: "order.created"}, consumers.Header{Name: "ce-traceparent", Value: trace},
		consumers.Header{Name: "ce-requestid", Value: "r-1"}, consumers.Header{Name: "bad name", Value: "x"}, consumers.Header{Name: "split", Value: "a\r\nX-B: c"},
		consumers.Header{Name: "ce-eventhookhops", Value: "2"}))
	e := s.store.stored()[0]
	got := []string{e.EventType, e.IdempotencyKey, e.ContentType, string(e.Body), e.TraceID, e.RequestID, fmt.Sprint(e.Hops())}
	want := []string{"order.created", "orders/0/1", "application/json", `{"id":7}`, trace[3:35], "r-1", "2"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("event (-want +got):\n%s", diff)
	}
	for _, line := range []string{"Host: kafka\r\n", "X-Message-Key: k\r\n", "X-Message-Subject: orders\r\n", "X-Message-Position: orders/0/1\r\n", "Split: a  X-B: c\r\n"} {
		if !strings.Contains(string(e.Headers), line) {
			t.Errorf("the headers %q have no %q", e.Headers, line)
		}
	}
	if strings.Contains(strings.ToLower(string(e.Headers)), "bad") {
		t.Errorf("the headers %q have a name that is none", e.Headers)
	}
}

func TestARepeatedMessageIsADuplicate(t *testing.T) {
	s := newMessages(t)
	s.wantTaken(t, 1, messageAt("orders/0/1", "{}"))
	s.wantTaken(t, 2, messageAt("orders/0/1", "{}"), messageAt("orders/0/2", "{}"))
	list := s.store.stored()
	if list[1].Status != eventhook.EventDuplicate || list[1].DuplicateOf != list[0].ID || list[2].Status == eventhook.EventDuplicate {
		t.Errorf("got the statuses %s, %s; want a duplicate and another event", list[1].Status, list[2].Status)
	}
	if s.observer.outcomes[ingest.OutcomeDuplicate] != 1 || s.observer.outcomes[ingest.OutcomeAccepted] != 2 {
		t.Errorf("observed %v", s.observer.outcomes)
	}
}

func TestTheIdsOfMessagesHaveTheirOrder(t *testing.T) {
	s := newMessages(t, limit(1000, 10000, 300))
	var list []*consumers.Message
	for i := range 200 {
		list = append(list, messageAt(fmt.Sprint("p", i), "{}"))
	}
	s.wantTaken(t, 200, list...)
	stored := s.store.stored()
	for i := 1; i < len(stored); i++ {
		if stored[i-1].ID.String() >= stored[i].ID.String() {
			t.Fatalf("the ids %s and %s of messages %d and %d have another order", stored[i-1].ID, stored[i].ID, i-1, i)
		}
	}
}

// A message that cannot become an event is recorded as a rejection, and does not block the messages after it.
func TestPoisonMessagesAreRejected(t *testing.T) {
	s := newMessages(t, func(s *eventhook.Source) { s.MaxBodyBytes, s.ContentTypes = 100, []string{"application/json"} })
	unreadable := messageAt("p1", "")
	unreadable.Unreadable = "the body is not base64"
	text := messageAt("p3", "x")
	text.ContentType = "text/plain"
	list := []*consumers.Message{unreadable, messageAt("p2", strings.Repeat("x", 101)), text, messageAt("p4", "{}", consumers.Header{Name: "ce-eventhookhops", Value: "9"}),
		messageAt("p5", "{}", consumers.Header{Name: "content-encoding", Value: "br"}), messageAt("p6", "{}", consumers.Header{Name: "h", Value: strings.Repeat("y", 300<<10)}), messageAt("p7", "{}")}
	s.wantTaken(t, len(list), list...)
	s.wantStored(t, 1)
	var got []string
	for _, r := range s.rejected {
		got = append(got, r.Outcome+" "+r.Detail)
	}
	want := []string{"unreadable the body is not base64", "too_large ", "content_type_refused ", "loop ", "content_encoding_refused ", "too_large the headers of the message are larger than 256 KiB"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rejections (-want +got):\n%s", diff)
	}
	for i, m := range list {
		if m.IsRefused != (i < 6) {
			t.Errorf("message %d: refused is %t", i+1, m.IsRefused)
		}
	}
	if len(s.counts) != 5 {
		t.Errorf("got %d counts, want one for each reason", len(s.counts))
	}
}

func TestAMessageWithoutAKeyIsRejectedIfTheSourceRequiresOne(t *testing.T) {
	s := newMessages(t, func(s *eventhook.Source) { s.RequireIdempotencyKey = true })
	m := messageAt("", "{}")
	s.wantTaken(t, 1, m)
	if !m.IsRefused || s.rejected[0].Outcome != "key_missing" {
		t.Errorf("got %+v", s.rejected)
	}
}

func TestAnEventThatTheDatabaseRefusesBecomesARejection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newMessages(t)
		s.store.refuse = func(e *eventhook.Event) bool { return e.IdempotencyKey == "p2" }
		list := []*consumers.Message{messageAt("p1", "{}"), messageAt("p2", "{}"), messageAt("p3", "{}")}
		s.wantTaken(t, 3, list...)
		s.wantStored(t, 2)
		if len(s.rejected) != 1 || s.rejected[0].Detail != "the database refuses the event" || !list[1].IsRefused || list[0].IsRefused {
			t.Errorf("got the rejections %+v", s.rejected)
		}
		if s.attempts != 3 {
			t.Errorf("got %d attempts, want 3", s.attempts)
		}
	})
}

// The answer of a commit is lost: the events are in the database, and are not stored again.
func TestMessagesOfALostCommitAreNotStoredTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newMessages(t)
		s.store.lost = 1
		s.wantTaken(t, 2, messageAt("", `{"n":1}`), messageAt("", `{"n":2}`)) // without keys
		s.wantStored(t, 2)
	})
}

func TestMessagesWaitForTheDatabase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newMessages(t)
		s.store.set(func(s *store) { s.err = errDown })
		time.AfterFunc(10*time.Second, func() { s.store.set(func(s *store) { s.err = nil }) })
		done, waits, err := s.take(t.Context(), messageAt("p1", "{}"))
		if done != 1 || err != nil || len(waits) == 0 || strings.Contains(fmt.Sprint(waits), "hunter2") {
			t.Errorf("took %d messages (%v, %v)", done, waits, err)
		}
		s.wantStored(t, 1)
		s.store.set(func(s *store) { s.err = errDown })
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if done, _, err := s.take(ctx, messageAt("p2", "{}")); done != 0 || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("took %d messages (%v), want none within the time", done, err)
		}
	})
}

func TestARejectionIsOnDiskBeforeItsMessageIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newMessages(t, func(s *eventhook.Source) { s.MaxBodyBytes = 1 })
		s.err = errDown
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		m := messageAt("p1", "{}")
		if done, _, err := s.take(ctx, m); done != 0 || err == nil || m.IsRefused {
			t.Errorf("took %d messages (%v), want none", done, err)
		}
		s.err = nil
		s.wantTaken(t, 1, m)
	})
}

// The rate limit of a source slows its consumption, and refuses no message.
func TestTheRateLimitSlowsMessages(t *testing.T) {
	s := newMessages(t, limit(10, 1000, 3))
	var list []*consumers.Message
	for i := range 5 {
		list = append(list, messageAt(fmt.Sprint("p", i), "{}"))
	}
	s.wantTaken(t, 3, list...)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if done, _, err := s.take(ctx, list[3:]...); done != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("took %d messages (%v), want none at once", done, err)
	}
	s.clock.Advance(200 * time.Millisecond)
	s.wantTaken(t, 2, list[3:]...)
	if s.wantStored(t, 5); len(s.rejected) > 0 {
		t.Errorf("got the rejections %+v", s.rejected)
	}
}

// A raised quota counts soon, although the quota that is used up lasts until the end of the day.
func TestMessagesNoticeARaisedQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newMessages(t, quota(perDay(1)))
		s.wantTaken(t, 1, messageAt("p1", "{}"))
		time.AfterFunc(5*time.Second, func() {
			s.sources.mu.Lock()
			s.sources.list[0].Quota = perDay(2)
			s.sources.mu.Unlock()
			s.handler.InvalidateTenant("acme")
		})
		began := time.Now()
		done, waits, err := s.take(t.Context(), messageAt("p2", "{}"))
		if took := time.Since(began); done != 1 || err != nil || took > 7*time.Second || len(waits) == 0 || !strings.Contains(waits[0], "max_events_per_day") {
			t.Errorf("took %d messages after %s (%v, %v), want one within 2 s of the change", done, took, waits, err)
		}
	})
}

// AwaitMessages waits as long as TakeMessages, which says how much of the quota the message needs, and takes nothing.
func TestMessagesAreAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newMessages(t, quota(stored(1000)))
		needed := 0
		in := ingest.Messages{Tenant: "acme", Source: "crm", Waits: func(_ string, bytes int) { needed = bytes }}
		await := func(bytes int) error {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			return s.handler.AwaitMessages(ctx, in, bytes, s)
		}
		for range 5 { // 600 bytes fit each time
			if err := await(600); err != nil {
				t.Errorf("a message that fits: %v", err)
			}
		}
		large := in
		large.List = []*consumers.Message{messageAt("p1", `"`+strings.Repeat("x", 2000)+`"`)}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if _, err := s.handler.TakeMessages(ctx, large, s); !errors.Is(err, context.DeadlineExceeded) || needed < 2000 {
			t.Errorf("a message of 2 KB: got %v, and that it needs %d bytes", err, needed)
		}
		if err := await(needed); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%d bytes: got %v, want a wait", needed, err)
		}
		if n := len(s.store.stored()); n != 0 {
			t.Errorf("%d events were stored", n)
		}
	})
}

func TestMessagesOfASourceThatDoesNotConsumeAreNotTaken(t *testing.T) {
	for claim, change := range map[string]func(*eventhook.Source){
		"a disabled source":          func(s *eventhook.Source) { s.IsEnabled = false },
		"a source that has webhooks": func(s *eventhook.Source) { s.Consume = nil },
	} {
		s := newMessages(t, change)
		if done, _, err := s.take(t.Context(), messageAt("p1", "{}")); done != 0 || eventhook.KindOf(err) != eventhook.KindNotFound {
			t.Errorf("%s: took %d messages (%v)", claim, done, err)
		}
	}
}

// The URL of such a source answers as that of a source that does not exist, also if the source is read from a copy.
func TestASourceThatConsumesMessagesHasNoURL(t *testing.T) {
	for _, isCopy := range []bool{false, true} {
		s := newMessages(t, func(s *eventhook.Source) { s.IsCopy = isCopy })
		for _, r := range []*http.Request{webhook("{}"), httptest.NewRequest(http.MethodGet, webhook("").URL.String(), nil)} {
			s.wantStatus(t, r, 404)
		}
		s.wantStored(t, 0)
		rejected := &rejectionStore{}
		if s.record(t, rejected); rejected.tries() > 0 {
			t.Errorf("copy %t: got the rejections %v, want none", isCopy, rejected.written())
		}
	}
}
