package send_test

import (
	"bytes"
	"context"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/eventhook/eventhook/outbound/send"
)

// BenchmarkSend compares a complete attempt (compose, sign, send, read the response) with a bare
// client that posts the same bytes to the same receiver.
func BenchmarkSend(b *testing.B) {
	receiver := newQuietSink(b)
	e := newEvent()
	e.Body = []byte(`{"text":"` + strings.Repeat("x", 1000) + `"}`)
	const inFlight = 10
	bench := func(name string, send func() bool) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetParallelism(inFlight)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if !send() {
						b.Error("the request was not sent")
						return
					}
				}
			})
		})
	}
	body := send.Body(e)
	bare := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}}
	post := func(header http.Header) bool {
		r, err := http.NewRequest(http.MethodPost, receiver, bytes.NewReader(body))
		if err != nil {
			return false
		}
		maps.Copy(r.Header, header)
		response, err := bare.Do(r)
		if err != nil {
			return false
		}
		_, _ = io.Copy(io.Discard, response.Body)
		return response.Body.Close() == nil
	}
	bench("bare", func() bool { return post(http.Header{"Content-Type": {"application/json"}}) })
	sender, s := newSender(time.Now), newSubscription(receiver)
	sending := sendingOf(s, e, 1)
	var headers http.Header // which the receiver must parse, too
	newSenderOver(clientFunc(func(_ context.Context, r *http.Request, _ int) (int, http.Header, []byte, error) {
		headers = r.Header
		return 200, nil, nil, nil
	}), "eventhook/1", time.Now).Send(b.Context(), sending)
	bench("bare with the same headers", func() bool { return post(headers) })
	bench("signed", func() bool { a := sender.Send(b.Context(), sending); return a.Succeeded() })
}
