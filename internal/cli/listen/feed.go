package listen

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/client"
)

// arrival is a webhook that the gateway has stored, or a delivery.
type arrival struct {
	ID, Source, Type string
	ReceivedAt       time.Time
	DuplicateOf      string // "" unless the webhook is a duplicate
	DeliveryID       string // "" for a webhook
}

// feed passes each webhook once to a channel, in the order of arrival. One goroutine may use it.
type feed struct {
	client         *client.Client
	tenant         string
	params         client.StreamEventsParams
	sources, types []string
	since, mark    time.Time // mark: when the last event that was read arrived, else since
	seen           seen
	out            chan<- arrival
	hints          io.Writer
	pause          func(context.Context, time.Duration) bool
	maxReread      int
}

// The feed reads overlap before the last event again when it connects, because events are not
// stored in the order of their times.
const overlap = time.Minute

// The pauses before reconnections.
const minPause, maxPause = time.Second, 30 * time.Second

// maxReread limits the events of one rereading.
const maxReread = 50_000

func newFeed(c Config, out chan<- arrival) *feed {
	f := &feed{client: c.Client, tenant: c.Tenant, sources: c.Sources, types: c.Types, since: c.Since, mark: c.Since,
		seen: newSeen(maxSeen), out: out, hints: c.Printer.Hints, pause: c.Pause, maxReread: cmp.Or(c.MaxReread, maxReread)}
	if len(c.Sources) == 1 {
		f.params.Source = &c.Sources[0]
	}
	return f
}

// run passes webhooks until ctx ends. It reconnects a stream that ends, and fails if the gateway
// refuses the request.
func (f *feed) run(ctx context.Context) error {
	for wait := minPause; ; wait = min(2*wait, maxPause) {
		hasRead, err := f.follow(ctx)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // ctx has ended the stream
		}
		if !client.IsTemporary(err) {
			return err
		}
		if hasRead {
			wait = minPause
		}
		wait = max(wait, min(client.RetryAfterOf(err), maxPause))
		_, _ = fmt.Fprintf(f.hints, "The connection to the gateway was lost (%v); reconnecting in %s.\n", err, wait)
		if !f.pause(ctx, wait) {
			return nil
		}
	}
}

// follow reads one stream until it ends. The stream starts with the events since mark, less the
// overlap. The gateway sends a gap if there are too many.
func (f *feed) follow(ctx context.Context) (hasRead bool, err error) {
	params := f.params
	params.LastEventID = new(eventhook.NewID[eventhook.Event](f.mark.Add(-overlap)).String())
	for n, err := range f.client.Watch(ctx, f.tenant, params) {
		switch {
		case err != nil:
		case n.Gap:
			err = f.reread(ctx)
		default:
			err = f.pass(ctx, n.Event)
		}
		if err != nil {
			return hasRead, err
		}
		hasRead = true
	}
	return hasRead, ctx.Err()
}

// reread passes the events since mark, less the overlap, oldest first.
func (f *feed) reread(ctx context.Context) error {
	params := client.ListEventsParams{Source: f.params.Source, ReceivedAfter: new(f.mark.Add(-overlap)), Limit: new(int64(250))}
	found, err := newest(f, f.client.AllEvents(ctx, f.tenant, params), "events", *params.ReceivedAfter)
	if err != nil {
		return err
	}
	for _, e := range slices.Backward(found) {
		if err := f.pass(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

// newest returns at most maxReread items of a list of the newest first. If there are more, it tells the user.
func newest[T any](f *feed, list iter.Seq2[T, error], name string, since time.Time) (found []T, err error) {
	for item, err := range list {
		if err != nil {
			return nil, err
		}
		if len(found) == f.maxReread {
			_, _ = fmt.Fprintf(f.hints, "More than %d %s arrived since %s: older ones are left out.\n", f.maxReread, name, since.UTC().Format(time.RFC3339))
			break
		}
		found = append(found, item)
	}
	return found, nil
}

// pass passes an event if it is a wanted webhook that was not passed before.
func (f *feed) pass(ctx context.Context, e client.Event) error {
	if f.wants(e) && f.seen.add(e.ID, e.ReceivedAt) {
		a := arrival{ID: e.ID, Source: text(e.Source), Type: e.EventType, ReceivedAt: e.ReceivedAt, DuplicateOf: text(e.DuplicateOf)}
		select {
		case f.out <- a:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if e.ReceivedAt.After(f.mark) {
		f.mark = e.ReceivedAt
	}
	return nil
}

func (f *feed) wants(e client.Event) bool {
	return e.Origin == client.EventOriginSource && !e.ReceivedAt.Before(f.since) &&
		(len(f.sources) == 0 || slices.Contains(f.sources, text(e.Source))) &&
		f.wantsType(e.EventType)
}

func (f *feed) wantsType(eventType string) bool {
	return len(f.types) == 0 || slices.ContainsFunc(f.types, func(pattern string) bool { return matchesType(pattern, eventType) })
}

// matchesType reports whether an event type matches a pattern: an exact type, prefix.*, or *.
func matchesType(pattern, eventType string) bool {
	prefix, isPrefix := strings.CutSuffix(pattern, "*")
	return pattern == eventType || isPrefix && strings.HasPrefix(eventType, prefix)
}

// text returns the text, or "" for nil.
func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
