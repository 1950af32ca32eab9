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

// streamSilence is how long a stream may say nothing: the gateway gives a sign
// of life much more often.
const streamSilence = time.Minute

// mostMessage bounds a line of a stream.
const mostMessage = 1 << 20

// News is something that a stream of events tells.
type News struct {
	Event Event
	Data  []byte // the event as it came, to the byte
	Gap   bool   // there was more than is told; then there is no event
}

// Watch tells what happens to events while it is listened to. It ends with an
// error when the stream breaks off or the gateway ends it; whoever goes on with
// the last event's id in params.LastEventID misses nothing. It ends without one
// when ctx does.
func (c *Client) Watch(ctx context.Context, tenant string, params StreamEventsParams, options ...CallOption) iter.Seq2[News, error] {
	return func(yield func(News, error) bool) {
		reading, stop := context.WithCancel(ctx)
		defer stop()
		resp, err := c.StreamEvents(reading, tenant, params, options...)
		if err == nil {
			defer func() { _ = resp.Body.Close() }()
			silence := time.AfterFunc(streamSilence, stop)
			defer silence.Stop()
			var goOn bool
			goOn, err = readNews(resp.Body, func() { silence.Reset(streamSilence) }, func(n News) bool { return yield(n, nil) })
			if !goOn {
				return
			}
		}
		if ctx.Err() == nil {
			yield(News{}, err)
		}
	}
}

// readNews reads server-sent events as the HTML standard has them, as far as a
// gateway sends them. It returns goOn false when nobody wants more.
func readNews(r io.Reader, alive func(), tell func(News) bool) (goOn bool, err error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, mostMessage)
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
		if known && !tell(n) {
			return false, nil
		}
		kind, data = "", nil
	}
	if err := lines.Err(); err != nil {
		return true, fmt.Errorf("read the stream: %w", err)
	}
	return true, fmt.Errorf("read the stream: %w", io.ErrUnexpectedEOF)
}

// newsOf reads a message. One of a kind that this version does not know is
// passed over.
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
