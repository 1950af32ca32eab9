package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"sync"

	"github.com/eventhook/eventhook/internal/pgembed"
)

const serverVariable = "EVENTHOOK_TEST_DATABASE_URL"

var errNoServer = errors.New("no PostgreSQL for tests: install PostgreSQL 14 or newer (its server programs), " +
	"start Docker, or set " + serverVariable + " to a server where databases may be created")

// shared is the server of this test process, started by the first New.
var shared holder

type holder struct {
	once   sync.Once
	server *server
	end    func() error
	err    error
}

// get returns the server after creating the template. The first failure is final, because
// every further test would wait for the same failure.
func (h *holder) get(ctx context.Context) (*server, error) {
	h.once.Do(func() {
		var base string
		if base, h.end, h.err = findServer(ctx); h.err != nil {
			return
		}
		if h.server, h.err = newServer(base); h.err == nil {
			h.err = h.server.createTemplate(ctx)
		}
	})
	return h.server, h.err
}

func (h *holder) stop() error {
	h.once.Do(func() { h.err = errors.New("the tests are over") })
	if h.end == nil {
		return nil
	}
	return h.end()
}

// findServer returns the URL of a server and a function that ends it.
func findServer(ctx context.Context) (base string, end func() error, err error) {
	if base := os.Getenv(serverVariable); base != "" {
		return base, func() error { return nil }, nil
	}
	s, end, err := startEmbedded(ctx, fastDir(), fast)
	if err == nil {
		return s.DSN("postgres"), end, nil
	}
	if !errors.Is(err, pgembed.ErrNoBinaries) {
		return "", nil, err
	}
	base, end, err = startContainer(ctx)
	if errors.Is(err, errNoDocker) {
		return "", nil, errNoServer
	}
	return base, end, err
}

// server is a PostgreSQL server whose user may create databases.
type server struct {
	base     url.URL
	template string
}

func newServer(base string) (*server, error) {
	u, err := url.Parse(base)
	if err != nil || (u.Scheme != "postgres" && u.Scheme != "postgresql") {
		return nil, fmt.Errorf("%s: not a URL of the form postgres://user@host/database", serverVariable)
	}
	name, err := templateName()
	return &server{base: *u, template: name}, err
}

func (s *server) dsn(database string) string {
	u := s.base
	u.Path = "/" + database
	return u.String()
}
