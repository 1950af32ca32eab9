package brokers_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound/brokers"
)

// lent is a connection that was lent.
type lent struct{ isClosed bool }

func (l *lent) IsClosed() bool { return l.isClosed }
func (l *lent) Close()         { l.isClosed = true }

func TestLend(t *testing.T) {
	b := brokers.New(brokers.Deps{Now: time.Now})
	tenant, other := eventhook.NewID[eventhook.Tenant](time.Now()), eventhook.NewID[eventhook.Tenant](time.Now())
	opened := 0
	lend := func(to eventhook.TenantID, name string) *lent {
		c, release, err := brokers.Lend(t.Context(), b, to, name, func(context.Context) (*lent, error) { opened++; return &lent{}, nil })
		if err != nil {
			t.Fatal(err)
		}
		release()
		return c
	}
	first := lend(tenant, "a")
	if again := lend(tenant, "a"); again != first || opened != 1 {
		t.Errorf("%d connections were opened, want one", opened)
	}
	if lend(tenant, "b"); lend(other, "a") == first || opened != 3 || b.Open() != 3 {
		t.Errorf("%d connections were opened, %d are open, want three: of two names, and of another tenant", opened, b.Open())
	}
	first.Close()
	if lend(tenant, "a") == first || opened != 4 {
		t.Errorf("%d connections were opened, want another one in place of the closed one", opened)
	}
	failure := errors.New("no connection")
	if _, _, err := brokers.Lend(t.Context(), b, tenant, "c", func(context.Context) (*lent, error) { return nil, failure }); !errors.Is(err, failure) {
		t.Errorf("got %v, want the error of the function that opens", err)
	}
}

// The context may end before Run has begun.
func TestRunClosesTheConnectionsInAnyCase(t *testing.T) {
	b := brokers.New(brokers.Deps{Now: time.Now})
	c, release, err := brokers.Lend(t.Context(), b, eventhook.NewID[eventhook.Tenant](time.Now()), "a", func(context.Context) (*lent, error) { return &lent{}, nil })
	if err != nil {
		t.Fatal(err)
	}
	release()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.Run(ended); err != nil || !c.isClosed {
		t.Errorf("got %v, closed: %t; want a closed connection", err, c.isClosed)
	}
}
