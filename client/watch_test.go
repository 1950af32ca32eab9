package client_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook/client"
)

const streamed = ": changes follow\n\n" +
	"event: event\nid: 1\ndata: {\"id\":\"1\",\"status\":\"pending\"}\n\n" +
	": keep-alive\n\n" +
	"event: invented\ndata: {}\n\n" +
	"event: gap\ndata: {}\n\n" +
	"event: event\r\nid: 2\r\ndata: {\"id\":\"2\",\r\ndata: \"status\":\"dead\"}\r\n\r\n"

func TestWatchYieldsMessagesUntilTheStreamFails(t *testing.T) {
	a := newFakeGateway(t, respond(200, streamed, "Content-Type", "text/event-stream"))
	var got []string
	var broken error
	for n, err := range a.Watch(t.Context(), "shop", client.StreamEventsParams{LastEventID: new("0"), Source: new("stripe")}) {
		switch {
		case err != nil:
			broken = err
		case n.Gap:
			got = append(got, "gap")
		default:
			got = append(got, n.Event.ID+" "+string(n.Event.Status))
		}
	}
	if diff := cmp.Diff([]string{"1 pending", "gap", "2 dead"}, got); diff != "" || !errors.Is(broken, io.ErrUnexpectedEOF) {
		t.Errorf("ended with %v, want %v; messages (-want +got):\n%s", broken, io.ErrUnexpectedEOF, diff)
	}
	if r := a.requests[0]; r.Header.Get("Last-Event-ID") != "0" || r.URL.RawQuery != "source=stripe" {
		t.Errorf("got a request of %s with the Last-Event-ID %q", r.URL, r.Header.Get("Last-Event-ID"))
	}
}

func TestWatchClosesTheStream(t *testing.T) {
	var ended chan struct{}
	open := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, streamed)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		close(ended)
	}
	for _, c := range []struct {
		claim string
		stop  func(cancel context.CancelFunc) (wantsMore bool)
	}{
		{"loop ends", func(context.CancelFunc) bool { return false }},
		{"context ends", func(cancel context.CancelFunc) bool { cancel(); return true }},
	} {
		t.Run(c.claim, func(t *testing.T) {
			ended = make(chan struct{})
			a := newFakeGateway(t, open)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			for _, err := range a.Watch(ctx, "shop", client.StreamEventsParams{}) {
				if err != nil {
					t.Errorf("got %v, want no error", err)
				}
				if !c.stop(cancel) {
					break
				}
			}
			<-ended
		})
	}
}

func TestWatchYieldsAProblem(t *testing.T) {
	a := newFakeGateway(t, respond(403, `{"title":"Forbidden","status":403}`, "Content-Type", "application/problem+json"))
	for _, err := range a.Watch(t.Context(), "shop", client.StreamEventsParams{}) {
		if client.StatusOf(err) != http.StatusForbidden {
			t.Errorf("got %v, want a problem with status 403", err)
		}
	}
}

func TestPayloadReturnsTheExactBytes(t *testing.T) {
	a := newFakeGateway(t, respond(200, "{\"a\" : 1}\x00", "Content-Type", "application/x-odd"))
	contentType, raw, err := a.Payload(t.Context(), "shop", "1")
	if contentType != "application/x-odd" || string(raw) != "{\"a\" : 1}\x00" || err != nil {
		t.Errorf("got %s %q, %v", contentType, raw, err)
	}
}
