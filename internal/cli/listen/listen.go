package listen

import (
	"context"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/cli/terminal"
)

// Config configures a listener.
type Config struct {
	Client *client.Client
	Tenant string
	Since  time.Time // of the gateway's clock: only webhooks received at this time or later
	Sources,
	Types []string // patterns; empty: all
	// Subscription is the id of a subscription, whose deliveries are forwarded instead of webhooks; "" forwards webhooks.
	Subscription string
	Secrets      []string // sign the requests of Subscription
	Duplicates   bool     // forwards duplicates, too

	Forward *url.URL    // nil: webhooks are printed, and not forwarded
	Header  http.Header // replaces headers of the webhooks
	HTTP    *http.Client

	Prints bool // prints headers and bodies
	Count  int  // ends after this number of webhooks; 0: never
	// MaxReread limits the events that are read again after a lost connection. 0: 50 000.
	MaxReread int
	Printer   terminal.Printer
	Keys      <-chan byte // may be nil

	Now   func() time.Time
	Pause func(context.Context, time.Duration) bool // waits; false if the context ends first
}

// Run forwards webhooks until ctx ends or Count webhooks are forwarded. It returns an error if the
// gateway refuses a request.
func Run(ctx context.Context, c Config) error {
	ctx, stop := context.WithCancel(ctx)
	var reading sync.WaitGroup
	defer reading.Wait()
	defer stop()
	arrivals, failed := make(chan arrival, maxWaiting), make(chan error, 1)
	feed := newFeed(c, arrivals)
	reading.Go(func() {
		if c.Subscription != "" {
			failed <- feed.runDeliveries(ctx, c.Subscription)
		} else {
			failed <- feed.run(ctx)
		}
	})
	return newForwarder(c).forwardAll(ctx, arrivals, failed)
}

// maxWaiting is the number of webhooks that may wait for the program. If more arrive, the stream is
// not read until there is space.
const maxWaiting = 1000

// Replay forwards one webhook again. ok reports whether the program answered 2xx.
func Replay(ctx context.Context, c Config, id string) (ok bool, err error) {
	f := newForwarder(c)
	x, err := f.forward(ctx, arrival{ID: id}, true)
	if err != nil {
		return false, err
	}
	return x.isSuccess() || c.Forward == nil && x.Error == nil, nil
}

// forwardAll forwards arrivals in their order. It returns nil when ctx ends.
func (f *forwarder) forwardAll(ctx context.Context, arrivals <-chan arrival, failed <-chan error) error {
	for n := 0; ; {
		var err error
		select {
		case <-ctx.Done():
			return nil
		case err = <-failed:
		case key := <-f.Keys:
			err = f.press(ctx, key)
		case a := <-arrivals:
			if _, err = f.forward(ctx, a, false); err == nil {
				n++
			}
		}
		if ctx.Err() != nil || err != nil || f.Count > 0 && n >= f.Count {
			return err
		}
	}
}

// press handles a key: r forwards the last webhook again, and d shows its details.
func (f *forwarder) press(ctx context.Context, key byte) error {
	if key != 'r' && key != 'd' {
		return nil
	}
	if f.last == nil {
		f.note("Nothing has been forwarded yet.")
		return nil
	}
	if key == 'd' {
		return f.printDetails(f.last)
	}
	_, err := f.forward(ctx, f.last.arrival, true)
	return err
}
