package natslog_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/ingest"
	"github.com/eventhook/eventhook/internal/clocktest"
	"github.com/eventhook/eventhook/internal/natslog"
	"github.com/eventhook/eventhook/internal/natstest"
)

// sourceStore is a database with sources. A copy of a source is its name.
type sourceStore struct {
	err   error
	asked int
}

func (s *sourceStore) FindSource(_ context.Context, _, source string) (eventhook.Source, error) {
	s.asked++
	if strings.HasPrefix(source, "sealed") {
		return eventhook.Source{}, errors.New("the secrets do not open")
	}
	return eventhook.Source{Name: "of the database"}, s.err
}

func (s *sourceStore) OpenSourceCopy(value []byte) (eventhook.Source, error) {
	return eventhook.Source{Name: string(value)}, nil
}

// newSources returns the sources of a log whose bucket has copies of acme/github and acme/sealed.
func newSources(t *testing.T, store natslog.SourceStore, clock *clocktest.Clock) *natslog.Sources {
	f := setUp(t, natstest.New(t, nil).URL(), 1)
	f.open() // creates the bucket
	kv, err := natstest.Connect(t, f.url).KeyValue(t.Context(), f.config.Name+"_SOURCES")
	if err != nil {
		t.Fatal(err)
	}
	for key, value := range map[string]string{"source.acme.github": "a copy", "source.acme.sealed": "a copy", "meta.complete": "1"} {
		if _, err := kv.Put(t.Context(), key, []byte(value)); err != nil {
			t.Fatal(err)
		}
	}
	l, err := natslog.Open(natslog.Options{Config: f.config, Ingest: ingest.DefaultConfig(), Name: "test", Log: slog.New(slog.DiscardHandler), Now: clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l.Sources(store)
}

func TestCopiesAreReadWhileTheDatabaseCannotBeUsed(t *testing.T) {
	for _, outage := range []error{
		&eventhook.Error{Kind: eventhook.KindUnavailable}, fmt.Errorf("find source: %w", context.DeadlineExceeded),
	} {
		store, clock := &sourceStore{err: outage}, clocktest.New(time.Unix(1_800_000_000, 0))
		sources := newSources(t, store, clock)
		want := func(claim, name string, isCopy bool, asked int) {
			t.Helper()
			got, err := sources.FindSource(t.Context(), "acme", "github")
			if err != nil || got.Name != name || got.IsCopy != isCopy || store.asked != asked {
				t.Errorf("%s: got %q, a copy: %t, %v, after %d questions; want %q, %t, after %d", claim, got.Name, got.IsCopy, err, store.asked, name, isCopy, asked)
			}
		}
		want("the database fails", "a copy", true, 1)
		want("it is not asked again at once", "a copy", true, 1)
		if got, err := sources.FindSource(t.Context(), "acme", "none"); !errors.Is(err, eventhook.ErrNotFound) || !got.IsCopy {
			t.Errorf("a source without a copy: got a copy: %t, %v; want true, not found", got.IsCopy, err)
		}
		clock.Advance(2 * time.Second)
		want("it is asked again after 2 s", "a copy", true, 2)
		want("and then not at once", "a copy", true, 2)
		store.err = nil
		sources.Reached()
		want("it was reached", "of the database", false, 3)
		want("it does not fail any more", "of the database", false, 4)
	}
}

func TestAnErrorOfOneSourceIsNoOutage(t *testing.T) {
	store := &sourceStore{}
	sources := newSources(t, store, clocktest.New(time.Unix(1_800_000_000, 0)))
	if got, err := sources.FindSource(t.Context(), "acme", "sealed"); err != nil || !got.IsCopy {
		t.Errorf("a source that the database cannot open: got a copy: %t, %v; want true", got.IsCopy, err)
	}
	if got, err := sources.FindSource(t.Context(), "acme", "github"); err != nil || got.IsCopy {
		t.Errorf("another source: got a copy: %t, %v; want it from the database", got.IsCopy, err)
	}
}
