package natslog_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/natslog"
	"github.com/eventhook/eventhook/internal/natstest"
)

// copyStore is a database with the copies of the sources of acme, by their slugs. Every instance may write copies.
type copyStore struct {
	mu   sync.Mutex
	list map[string][]byte
	logs []string // for which an instance has asked whether it may write copies
}

func (s *copyStore) SourceCopies(context.Context, eventhook.SourceID, int) ([]eventhook.SourceCopy, error) {
	return s.SourceCopiesOf(context.Background(), "acme", "")
}

func (s *copyStore) SourceCopiesOf(_ context.Context, tenant, slug string) (list []eventhook.SourceCopy, _ error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, value := range s.list {
		if slug == "" || slug == name {
			list = append(list, eventhook.SourceCopy{Tenant: tenant, Slug: name, Value: value})
		}
	}
	return list, nil
}

func (s *copyStore) WithSourceCopies(ctx context.Context, log string, do func(context.Context) error) error {
	s.mu.Lock()
	s.logs = append(s.logs, log)
	s.mu.Unlock()
	return do(ctx)
}

// set changes a source, or deletes it if value is "".
func (s *copyStore) set(slug, value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.list[slug] = []byte(value); value == "" {
		delete(s.list, slug)
	}
}

// copyInto copies sources until the test ends.
func (f *fixture) copyInto(l *natslog.Log, store natslog.CopyStore) *natslog.Projector {
	p := l.Projector(store)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- p.Run(ctx) }()
	f.Cleanup(func() { cancel(); <-ended })
	return p
}

// Two instances name the servers of one log in different ways, or have different versions.
func TestTwoCopiersOfOneLogDoNoHarm(t *testing.T) {
	f := setUp(t, natstest.New(t, nil).URL(), 1)
	store := &copyStore{list: map[string][]byte{}}
	first, _ := f.open()
	second, _ := f.open()
	copiers := []*natslog.Projector{f.copyInto(first, store), f.copyInto(second, store)}
	kv, err := natstest.Connect(t, f.url).KeyValue(t.Context(), f.config.Name+"_SOURCES")
	if err != nil {
		t.Fatal(err)
	}
	f.sink.wait(t, "all sources are copied", func() bool {
		_, err := kv.Get(t.Context(), "meta.complete")
		return err == nil
	})
	const sources, changes = 10, 500
	for i := range changes {
		slug, value := fmt.Sprintf("s%d", i%sources), fmt.Sprint(i)
		if i%3 == 0 {
			value = ""
		}
		store.set(slug, value)
		for _, p := range copiers {
			p.Changed("acme", slug)
		}
	}
	f.sink.wait(t, "the bucket has the last state of all sources", func() bool {
		got := map[string][]byte{}
		for slug := range sources {
			if e, err := kv.Get(t.Context(), fmt.Sprintf("source.acme.s%d", slug)); err == nil {
				got[fmt.Sprintf("s%d", slug)] = e.Value()
			}
		}
		return maps.EqualFunc(got, store.list, bytes.Equal)
	})
}

func TestALogHasOneNameForAllInstances(t *testing.T) {
	store := &copyStore{}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for _, url := range []string{"nats://b:4222,nats://A", "nats://user:secret@a, nats://b", "nats://a,nats://c"} {
		f := setUp(t, url, 1)
		l, err := natslog.Open(natslog.Options{Config: f.config, Ingest: f.ingest, Log: slog.New(slog.DiscardHandler), Now: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(l.Close)
		_ = l.Projector(store).Run(ended)
	}
	if got := store.logs; got[0] != "EVENTHOOK_INGEST a:4222,b:4222" || got[1] != got[0] || got[2] == got[0] {
		t.Errorf("got %q, want the first two the same, and another one", got)
	}
}
