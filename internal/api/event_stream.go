package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/panics"
)

const (
	streamHeartbeat    = 15 * time.Second // between heartbeats
	streamWriteTimeout = 30 * time.Second
	maxStreamReplay    = 1000 // events in a replay
	// streamReplayOverlap is how long before the time of the last id a replay starts:
	// events are not stored in the order of their ids.
	streamReplayOverlap = time.Second
)

type streamInput struct {
	TenantPath
	LastEventID string `header:"Last-Event-ID" doc:"Id of the last event that the client received, as sent by EventSource. The stream starts with the events received since then, at most 1000; some of them may be repeated."`
	After       string `query:"after" doc:"Same as Last-Event-ID, for clients that cannot set headers."`
	Source      string `query:"source" doc:"Send only events of the source with this slug."`
	Status      string `query:"status" enum:"pending,processing,delivered,unrouted,failed,dead,duplicate" doc:"Send only events with this status."`
	EventType   string `query:"event_type" doc:"Send only events of this type."`
	Heartbeat   int    `query:"heartbeat_seconds" minimum:"1" maximum:"60" doc:"Send a message heartbeat after this many seconds without another message; its data is the time. Without the parameter, a comment is sent every 15 seconds, which EventSource does not show."`
}

// last returns the id of the last event that the client received; zero if the client
// sent none.
func (q *streamInput) last() (id eventhook.EventID, err error) {
	at, text := "header.Last-Event-ID", q.LastEventID
	if text == "" {
		at, text = "query.after", q.After
	}
	if text == "" {
		return id, nil
	}
	var faults eventhook.Faults
	id = idAt[eventhook.Event](&faults, at, text)
	return id, malformed(faults)
}

func (s *server) registerStream(api huma.API) {
	op := operation{id: "stream-events", method: http.MethodGet, path: base + "/events/stream", scope: eventhook.ScopeRead, tag: "events", class: ownLimits,
		summary: "Stream events as server-sent events",
		about: "Sends a message `event` whenever an event is stored or settled by any instance; its data is the event in the form of List events. " +
			"Two changes in quick succession are sent as one message. A message `gap` means that messages were skipped, because there were too many or the client read too slowly. " +
			"With heartbeat_seconds, a client that has seen no message for longer knows that the connection is lost. " +
			fmt.Sprintf("Each instance serves at most %d streams per tenant and %d in total.", maxTenantStreams, maxInstanceStreams)}
	register(s, api, op, s.streamEvents)
	described := api.OpenAPI().Paths[op.path].Get.Responses
	described["200"] = &huma.Response{Description: "A stream of server-sent events, which stays open until the client disconnects.", Content: map[string]*huma.MediaType{
		"text/event-stream": {Schema: &huma.Schema{Type: huma.TypeString}},
	}}
}

func (s *server) streamEvents(_ context.Context, by caller, in *streamInput) (*huma.StreamResponse, error) {
	after, err := in.last()
	if err != nil {
		return nil, err
	}
	release, err := s.streams.acquire(by.tenant)
	if err != nil {
		return nil, err
	}
	by.reservation.releaseForWait()
	filter := eventhook.EventFilter{Source: in.Source, Status: eventhook.EventStatus(in.Status), EventType: eventhook.SanitizeLabel(in.EventType)}
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		defer release()
		st := &eventStream{server: s, request: hc, tenant: by.tenant, filter: filter, after: after, every: time.Duration(in.Heartbeat) * time.Second}
		if err := st.run(); err != nil && !errors.Is(err, errStreamEnded) && hc.Context().Err() == nil {
			s.Log.Warn("event stream failed", "tenant", in.Tenant, "request_id", by.requestID, "trace_id", by.trace, "error", err)
		}
	}}, nil
}

// errStreamEnded means that the client disconnected or may not read any longer.
var errStreamEnded = errors.New("the stream ends")

// eventStream is the stream of one client.
type eventStream struct {
	*server
	request huma.Context
	tenant  eventhook.TenantID
	filter  eventhook.EventFilter
	after   eventhook.EventID // zero: no replay
	every   time.Duration     // between visible heartbeats; 0: comments, at the default interval

	out        io.Writer
	control    *http.ResponseController
	hasStarted bool
}

// run writes the stream until the client disconnects, the gateway stops or the key
// loses its permission.
func (st *eventStream) run() error {
	w, ok := st.request.BodyWriter().(http.ResponseWriter)
	if !ok {
		return errors.New("the response writer does not support streaming")
	}
	st.out, st.control = w, http.NewResponseController(w)
	ctx, cancel := context.WithCancel(st.request.Context())
	var watcher sync.WaitGroup
	defer watcher.Wait()
	defer cancel()
	watcher.Go(panics.Guarded(func() {
		select {
		case <-st.Stopping:
			cancel()
		case <-ctx.Done():
		}
	}))
	st.request.SetHeader("Content-Type", "text/event-stream")
	st.request.SetHeader("Cache-Control", "no-store")
	st.request.SetHeader("X-Accel-Buffering", "no") // nginx must not buffer the stream
	st.request.SetStatus(http.StatusOK)
	return st.Events.WatchEvents(ctx, st.tenant, cmp.Or(st.every, streamHeartbeat), func(updates eventhook.EventUpdates) error { return st.send(ctx, updates) })
}

// send writes event updates, or a heartbeat without any.
func (st *eventStream) send(ctx context.Context, updates eventhook.EventUpdates) error {
	if err := st.checkAccess(ctx); err != nil {
		return err
	}
	var text []byte
	if !st.hasStarted {
		st.hasStarted = true
		var err error
		if text, err = st.replay(ctx); err != nil {
			return err
		}
	}
	for _, e := range updates.Events {
		if st.matches(e) {
			text = appendEvent(text, e)
		}
	}
	if updates.Missed {
		text = append(text, gapMessage...)
	}
	if len(text) == 0 {
		text = st.heartbeat()
	}
	return st.write(text)
}

// heartbeat returns a message that EventSource shows, if the client asked for it, and a comment
// otherwise.
func (st *eventStream) heartbeat() []byte {
	if st.every == 0 {
		return []byte(": heartbeat\n\n")
	}
	data, _ := json.Marshal(map[string]time.Time{"at": utc(st.Now())}) // cannot fail
	return fmt.Appendf(nil, "event: heartbeat\ndata: %s\n\n", data)
}

// checkAccess returns errStreamEnded if the key of the client is no longer valid or
// lacks permission. If the check itself fails, the stream continues.
func (st *eventStream) checkAccess(ctx context.Context) error {
	c, _ := credentialOf(st.request)
	h, err := st.keys.authenticate(ctx, c)
	if err == nil {
		_, err = st.keys.permit(ctx, h, requirementOf(st.request))
	}
	if eventhook.KindOf(err) != "" {
		return errStreamEnded
	}
	return nil
}

// replay returns the messages of the events received since the last event of the
// client, with their current status. If there are more than maxStreamReplay, replay
// returns a gap message and the newest events.
func (st *eventStream) replay(ctx context.Context) (text []byte, err error) {
	if st.after.IsZero() {
		return []byte(": stream started\n\n"), nil
	}
	f := st.filter
	f.ReceivedAfter, f.Limit = sinceEpoch(st.after.Time().Add(-streamReplayOverlap)), maxStreamReplay+1
	list, err := st.Events.Events(ctx, st.tenant, f)
	if err != nil {
		return nil, err
	}
	if len(list) > maxStreamReplay {
		list, text = list[:maxStreamReplay], append(text, gapMessage...)
	}
	for _, e := range slices.Backward(list) {
		if e.ID != st.after {
			text = appendEvent(text, e)
		}
	}
	return text, nil
}

func (st *eventStream) matches(e eventhook.Event) bool {
	f := st.filter
	return (f.Source == "" || f.Source == e.SourceSlug) && (f.Status == "" || f.Status == e.Status) && (f.EventType == "" || f.EventType == e.EventType)
}

// write sends messages at once. It ends the stream if the client does not read
// within streamWriteTimeout.
func (st *eventStream) write(text []byte) error {
	_ = st.control.SetWriteDeadline(time.Now().Add(streamWriteTimeout)) // not supported by httptest.ResponseRecorder
	if _, err := st.out.Write(text); err != nil {
		return errStreamEnded
	}
	if err := st.control.Flush(); err != nil {
		return errStreamEnded
	}
	return nil
}

const gapMessage = "event: gap\ndata: {}\n\n"

func appendEvent(text []byte, e eventhook.Event) []byte {
	data, _ := json.Marshal(viewEvent(e)) // cannot fail; has no line breaks
	return fmt.Appendf(text, "event: event\nid: %s\ndata: %s\n\n", e.ID, data)
}
