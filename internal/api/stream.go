package api

import (
	"context"
	"crypto/sha256"
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
)

const (
	streamIdle    = 15 * time.Second // between two signs of life
	streamPatient = 30 * time.Second // for a client to take what is written
	streamReplay  = 1000             // events that are told again
	// streamOverlap is how much earlier than the last id a replay begins: ids
	// are made before their events are stored, and not stored in their order.
	streamOverlap = time.Second
)

type streamQuery struct {
	TenantPath
	LastEventID string `header:"Last-Event-ID" doc:"Id of the last event that the client received, as sent by EventSource. The stream starts with the events received since then, at most 1000; some of them may be repeated."`
	After       string `query:"after" doc:"Same as Last-Event-ID, for clients that cannot set headers."`
	Source      string `query:"source" doc:"Send only events of the source with this slug."`
	Status      string `query:"status" enum:"pending,processing,delivered,unrouted,failed,dead,duplicate" doc:"Send only events with this status."`
	EventType   string `query:"event_type" doc:"Send only events of this type."`
}

// last is the id to begin after; zero without one.
func (q *streamQuery) last() (id eventhook.EventID, err error) {
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
	op := operation{id: "stream-events", method: http.MethodGet, path: base + "/events/stream", scope: eventhook.ScopeRead, tag: "events", class: ownTurns,
		summary: "Stream events as server-sent events",
		about: "Sends a message `event` whenever an event is stored or settled by any instance; its data is the event in the form of List events. " +
			"Two changes in quick succession are sent as one message. A message `gap` means that messages were skipped, because there were too many or the client read too slowly. " +
			fmt.Sprintf("Each instance serves at most %d streams per tenant and %d in total.", streamsOfTenant, streamsOfAll)}
	register(s, api, op, s.streamEvents)
	described := api.OpenAPI().Paths[op.path].Get.Responses
	described["200"] = &huma.Response{Description: "A stream of server-sent events, which stays open until the client disconnects.", Content: map[string]*huma.MediaType{
		"text/event-stream": {Schema: &huma.Schema{Type: huma.TypeString}},
	}}
}

func (s *server) streamEvents(_ context.Context, by caller, in *streamQuery) (*huma.StreamResponse, error) {
	after, err := in.last()
	if err != nil {
		return nil, err
	}
	leave, err := s.streams.enter(by.tenant)
	if err != nil {
		return nil, err
	}
	by.hold.park()
	filter := eventhook.EventFilter{Source: in.Source, Status: eventhook.EventStatus(in.Status), EventType: eventhook.SanitizeLabel(in.EventType)}
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		defer leave()
		st := &stream{server: s, request: hc, tenant: by.tenant, filter: filter, after: after}
		if err := st.run(); err != nil && !errors.Is(err, errStreamEnds) && hc.Context().Err() == nil {
			s.Log.Warn("a stream of events broke off", "request_id", by.requestID, "error", err)
		}
	}}, nil
}

// errStreamEnds says that the client is gone, or may read no longer.
var errStreamEnds = errors.New("the stream ends")

// stream is one client's.
type stream struct {
	*server
	request huma.Context
	tenant  eventhook.TenantID
	filter  eventhook.EventFilter
	after   eventhook.EventID // zero: nothing is told again

	out     io.Writer
	control *http.ResponseController
	begun   bool
}

// run ends with the request, with the gateway, and with the client's key.
func (st *stream) run() error {
	w, ok := st.request.BodyWriter().(http.ResponseWriter)
	if !ok {
		return errors.New("the answer cannot be streamed")
	}
	st.out, st.control = w, http.NewResponseController(w)
	ctx, cancel := context.WithCancel(st.request.Context())
	var watcher sync.WaitGroup
	defer watcher.Wait()
	defer cancel()
	watcher.Go(func() {
		select {
		case <-st.Stopping:
			cancel()
		case <-ctx.Done():
		}
	})
	st.request.SetHeader("Content-Type", "text/event-stream")
	st.request.SetHeader("Cache-Control", "no-store")
	st.request.SetHeader("X-Accel-Buffering", "no") // proxies pass it on at once
	st.request.SetStatus(http.StatusOK)
	return st.Events.WatchEvents(ctx, st.tenant, streamIdle, func(news eventhook.EventUpdates) error { return st.tell(ctx, news) })
}

// tell writes news, or a sign of life.
func (st *stream) tell(ctx context.Context, news eventhook.EventUpdates) error {
	if err := st.stillMay(ctx); err != nil {
		return err
	}
	var text []byte
	if !st.begun {
		st.begun = true
		var err error
		if text, err = st.replay(ctx); err != nil {
			return err
		}
	}
	for _, e := range news.Events {
		if st.wants(e) {
			text = appendEvent(text, e)
		}
	}
	if news.Missed {
		text = append(text, gapMessage...)
	}
	if len(text) == 0 {
		text = []byte(": nothing new\n\n")
	}
	return st.write(text)
}

// stillMay holds that the key is valid and may read. That we cannot find out
// is no reason to end.
func (st *stream) stillMay(ctx context.Context) error {
	token, _ := bearer(st.request.Header("Authorization"))
	h, err := st.keys.find(ctx, token, sha256.Sum256([]byte(token)))
	if err == nil {
		_, err = st.keys.permit(ctx, h, needOf(st.request))
	}
	if eventhook.KindOf(err) != "" {
		return errStreamEnds
	}
	return nil
}

// replay is what was received since the client was last told, as it is now; if
// that is too much, the newest, after a gap.
func (st *stream) replay(ctx context.Context) (text []byte, err error) {
	if st.after.IsZero() {
		return []byte(": here is what happens from now on\n\n"), nil
	}
	f := st.filter
	f.ReceivedAfter, f.Limit = sinceEpoch(st.after.Time().Add(-streamOverlap)), streamReplay+1
	list, err := st.Events.Events(ctx, st.tenant, f)
	if err != nil {
		return nil, err
	}
	if len(list) > streamReplay {
		list, text = list[:streamReplay], append(text, gapMessage...)
	}
	for _, e := range slices.Backward(list) {
		if e.ID != st.after {
			text = appendEvent(text, e)
		}
	}
	return text, nil
}

func (st *stream) wants(e eventhook.Event) bool {
	f := st.filter
	return (f.Source == "" || f.Source == e.SourceSlug) && (f.Status == "" || f.Status == e.Status) && (f.EventType == "" || f.EventType == e.EventType)
}

// write sends at once, and ends the stream of a client that does not take it.
func (st *stream) write(text []byte) error {
	_ = st.control.SetWriteDeadline(time.Now().Add(streamPatient)) // a recorder has none
	if _, err := st.out.Write(text); err != nil {
		return errStreamEnds
	}
	if err := st.control.Flush(); err != nil {
		return errStreamEnds
	}
	return nil
}

const gapMessage = "event: gap\ndata: {}\n\n"

func appendEvent(text []byte, e eventhook.Event) []byte {
	data, _ := json.Marshal(viewEvent(e)) // texts, numbers and times; on one line
	return fmt.Appendf(text, "event: event\nid: %s\ndata: %s\n\n", e.ID, data)
}
