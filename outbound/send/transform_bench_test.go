package send_test

import (
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/cpushare"
	"github.com/eventhook/eventhook/internal/egress"
	"github.com/eventhook/eventhook/internal/script"
	"github.com/eventhook/eventhook/outbound/send"
	"github.com/eventhook/eventhook/outbound/transform"
)

// BenchmarkTransform sends an event with and without a transform in JMESPath, alternately.
// The whole path of a delivery, with its rows in the database, costs several times of a send.
func BenchmarkTransform(b *testing.B) {
	pool := script.NewPromptPool(1, 10*script.TimeLimit)
	b.Cleanup(pool.Close)
	share := cpushare.Config{Processors: 100, Burst: time.Hour, Tenants: 10}
	run := transform.NewRunner(pool, 2, cpushare.New(share, nil, time.Now), time.Now)
	sends := sender{send.NewHTTPSender(send.Deps{Client: egress.New(egress.Policy{AllowPrivate: true}), Transformer: run, UserAgent: "eventhook/1.2.3", Now: time.Now})}
	plain, e := newSubscription(newQuietSink(b)), newEvent()
	e.Body = []byte(`{"id":"o-1","customer":{"id":"c-42","name":"Ada"},"lines":[{"sku":"a","count":2},{"sku":"b","count":1}],"amount":1200}`)
	reshaped := *plain
	reshaped.ID = eventhook.NewID[eventhook.Subscription](eventTime)
	reshaped.Transform = &eventhook.Transform{Type: eventhook.TransformJMESPath, Expression: "{id: event_id, customer: data.customer.id, skus: data.lines[].sku}"}
	var without, with time.Duration
	for b.Loop() {
		began := time.Now()
		first := sends.Send(b.Context(), sendingOf(plain, e, 1))
		between := time.Now()
		second := sends.Send(b.Context(), sendingOf(&reshaped, e, 1))
		without, with = without+between.Sub(began), with+time.Since(between)
		if !first.Succeeded() || !second.Succeeded() {
			b.Fatalf("got %+v and %+v", first, second)
		}
	}
	b.ReportMetric(with.Seconds()/without.Seconds(), "ratio-of-sends")
	b.ReportMetric(float64((with-without).Microseconds())/float64(b.N), "µs-more")
}
