package brokers_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
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

// Package outbound recovers from a panic of an attempt. The next message opens another connection.
func TestAConnectionWhoseOpeningPanickedIsOpenedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, tenant := brokers.New(brokers.Deps{Now: time.Now}), eventhook.NewID[eventhook.Tenant](time.Now())
		func() {
			defer func() { _ = recover() }()
			_, _, _ = brokers.Lend(t.Context(), b, tenant, "a", func(context.Context) (*lent, error) { panic("a defect of a client") })
		}()
		ctx, cancel := context.WithTimeout(t.Context(), forever)
		defer cancel()
		_, release, err := brokers.Lend(ctx, b, tenant, "a", func(context.Context) (*lent, error) { return &lent{}, nil })
		if err != nil {
			t.Fatalf("the next message got no connection: %v", err)
		}
		release()
		if n := b.Open(); n != 1 {
			t.Errorf("%d connections are open, want 1", n)
		}
	})
}

// tracer counts the attempts that it is notified of.
type tracer struct{ attempts int }

func (c *tracer) Sent(*eventhook.Delivery, int, string, eventhook.Attempt) { c.attempts++ }

// The dispatcher makes an attempt of the class busy again and does not count it.
func TestAnAttemptWithoutAConnectionIsNotTraced(t *testing.T) {
	f := open(t, `{"type":"redis_stream","url":"redis://127.0.0.1:1","stream":"orders"}`)
	traced := &tracer{}
	f.brokers.Tracer = traced
	if a := f.send(f.delivery("application/json", order)); a.ErrorClass != eventhook.ErrorConnect || traced.attempts != 1 {
		t.Errorf("got %s: %s, and %d attempts were traced; want 1 that could not connect", a.ErrorClass, a.Error, traced.attempts)
	}
	for i := range 50 { // as many as a tenant may have
		_, release, err := brokers.Lend(t.Context(), f.brokers, f.tenant, fmt.Sprint(i), func(context.Context) (*lent, error) { return &lent{}, nil })
		if err != nil {
			t.Fatal(err)
		}
		defer release()
	}
	if a := f.send(f.delivery("application/json", order)); a.ErrorClass != eventhook.ErrorBusy || traced.attempts != 1 {
		t.Errorf("got %s: %s, and %d attempts were traced; want busy, and no further one", a.ErrorClass, a.Error, traced.attempts)
	}
}

// slow is a connection whose server keeps Close waiting.
type slow struct{ closed *atomic.Int32 }

func (slow) IsClosed() bool { return false }

func (s slow) Close() {
	time.Sleep(forever)
	s.closed.Add(1)
}

// An eviction is no concern of the tenant that needs the place. Run waits for the server at its end.
func TestNobodyWaitsForAConnectionToClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, began := brokers.New(brokers.Deps{Now: time.Now}), time.Now()
		var closed atomic.Int32
		lend := func(tenant eventhook.TenantID, i int) error {
			_, release, err := brokers.Lend(t.Context(), b, tenant, fmt.Sprint(i), func(context.Context) (slow, error) { return slow{&closed}, nil })
			if err == nil {
				release()
			}
			return err
		}
		tenant, other := eventhook.NewID[eventhook.Tenant](began), eventhook.NewID[eventhook.Tenant](began)
		for i := range 100 { // 50 are open, and 50 are being closed
			if err := lend(tenant, i); err != nil {
				t.Fatalf("%d: %v", i, err)
			}
		}
		if err := lend(tenant, 100); err == nil {
			t.Error("the tenant opened a connection while 50 were being closed")
		}
		if err := lend(other, 0); err != nil {
			t.Errorf("another tenant: %v", err)
		}
		if waited := time.Since(began); waited > 0 || closed.Load() > 0 || b.Open() != 51 {
			t.Errorf("the callers waited for %s, %d connections are open; want 51 without a wait", waited, b.Open())
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := b.Run(ended); err != nil || closed.Load() != 101 {
			t.Errorf("Run closed %d connections: %v; want 101", closed.Load(), err)
		}
	})
}
