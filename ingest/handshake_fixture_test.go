package ingest_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/ingest"
	"github.com/eventhook/eventhook/verify"
)

// learner is an ingest.Learner that stores secrets in the fixture's sources.
type learner struct {
	sources *sources
	err     error
	learned []string
}

func (l *learner) StoreLearnedSecret(ctx context.Context, id eventhook.SourceID, secret eventhook.Secret) error {
	l.sources.mu.Lock()
	defer l.sources.mu.Unlock()
	if err := errors.Join(ctx.Err(), l.err); err != nil {
		return err
	}
	i := slices.IndexFunc(l.sources.list, func(s eventhook.Source) bool { return s.ID == id })
	if i < 0 || len(l.sources.list[i].LearnedSecrets) > 0 {
		return &eventhook.Error{Kind: eventhook.KindConflict, Message: "there is one"}
	}
	l.sources.list[i].LearnedSecrets = []eventhook.Secret{secret}
	l.learned = append(l.learned, secret.Reveal())
	return nil
}

// confirmer is an ingest.Confirm that only records its calls.
type confirmer struct {
	mu     sync.Mutex
	err    error
	hangs  bool
	called []string
}

func (c *confirmer) confirm(ctx context.Context, url string) error {
	c.mu.Lock()
	c.called = append(c.called, url)
	hangs, err := c.hangs, c.err
	c.mu.Unlock()
	if hangs {
		<-ctx.Done()
	}
	return errors.Join(ctx.Err(), err)
}

func (c *confirmer) calls() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.called)
}

// services is an ingest.Services in memory that counts its calls.
type services struct {
	ids   []string
	err   error
	calls int
}

func (s *services) FastlyServices(ctx context.Context) ([]string, error) {
	s.calls++
	return s.ids, errors.Join(ctx.Err(), s.err)
}

var (
	_ ingest.Learner  = (*learner)(nil)
	_ ingest.Confirm  = (*confirmer)(nil).confirm
	_ ingest.Services = (*services)(nil)
)

// verifiedAs sets the provider and the verifier of a source.
func verifiedAs(s verify.Spec) func(*eventhook.Source) {
	return func(source *eventhook.Source) { source.Provider, source.Verifier = s.Provider, spec(s) }
}

// unsignedRequest returns an unsigned request to acme/crm; headers are pairs of name and value.
func unsignedRequest(method, query, body string, headers ...string) *http.Request {
	r := httptest.NewRequest(method, ingest.Path("acme", "crm"), strings.NewReader(body))
	r.URL.RawQuery = query
	for pair := range slices.Chunk(headers, 2) {
		r.Header.Add(pair[0], pair[1])
	}
	return r
}
