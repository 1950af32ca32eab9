package client

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"strings"
	"time"
)

// streamTimeout is the longest time without a line of the stream. The gateway sends comments as
// keep-alives much more often.
const streamTimeout = time.Minute

// maxLineBytes limits a line of the stream.
const maxLineBytes = 1 << 20

// News is a message of the stream of events: a new state of an event, or a gap.
type News struct {
	Event Event
	Data  []byte // the JSON of the event as it was received
	Gap   bool   // true if messages were dropped; Event and Data are then empty
}

// Watch returns an iterator over the changes of events, as StreamEvents sends them. It yields an
// error and ends if the stream fails or the gateway closes it. To resume without missing a
// change, call Watch again with the id of the last event in params.LastEventID. The iterator
// ends without an error when ctx ends. Breaking out of the loop closes the stream.
func (c *Client) Watch(ctx context.Context, tenant string, params StreamEventsParams, options ...CallOption) iter.Seq2[News, error] {
	return func(yield func(News, error) bool) {
		streamCtx, stop := context.WithCancel(ctx)
		defer stop()
		resp, err := c.StreamEvents(streamCtx, tenant, params, options...)
		if err == nil {
			defer func() { _ = resp.Body.Close() }()
			timeout := time.AfterFunc(streamTimeout, stop)
			defer timeout.Stop()
			var wantsMore bool
			wantsMore, err = readNews(resp.Body, func() { timeout.Reset(streamTimeout) }, func(n News) bool { return yield(n, nil) })
			if !wantsMore {
				return
			}
		}
		if ctx.Err() == nil {
			yield(News{}, err)
		}
	}
}

// readNews reads server-sent events (HTML standard, section 9.2) and passes them to yield. It
// calls alive after each line. It supports the fields that a gateway sends. It returns
// wantsMore == false if yield returned false, and an error otherwise, because a stream has no
// regular end.
func readNews(r io.Reader, alive func(), yield func(News) bool) (wantsMore bool, err error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLineBytes)
	var kind string
	var data []byte
	for lines.Scan() {
		alive()
		name, value, _ := strings.Cut(lines.Text(), ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "event":
			kind = value
		case "data":
			if data != nil {
				data = append(data, '\n')
			}
			data = append(data, value...)
		}
		if lines.Text() != "" {
			continue
		}
		n, known, err := newsOf(kind, data)
		if err != nil {
			return true, err
		}
		if known && !yield(n) {
			return false, nil
		}
		kind, data = "", nil
	}
	if err := lines.Err(); err != nil {
		return true, fmt.Errorf("read the stream: %w", err)
	}
	return true, fmt.Errorf("read the stream: %w", io.ErrUnexpectedEOF)
}

// newsOf decodes a message. It returns known == false for a kind of message that this version of
// the package does not know.
func newsOf(kind string, data []byte) (n News, known bool, err error) {
	switch kind {
	case "gap":
		return News{Gap: true}, true, nil
	case "event":
		if err := json.Unmarshal(data, &n.Event); err != nil {
			return n, false, fmt.Errorf("read the stream: %w", err)
		}
		n.Data = data
		return n, true, nil
	}
	return n, false, nil
}
