package brokers_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/bench/measure"
)

const (
	// benchSlots is the number of messages that are sent at once, as to one target.
	benchSlots = 64
	// minThroughput is the minimum of messages per second by the gateway's client, in those by the
	// library alone.
	minThroughput = 0.5
)

// benchClient compares deliveries with messages of the same content by the library alone. Both send
// b.N messages, in turn. alone sends one and waits for its acknowledgement.
func benchClient(b *testing.B, f *fixture, alone func(ctx context.Context) error) {
	b.Helper()
	const rounds = 5
	var ratios, rates, bareRates []float64
	for range rounds {
		bare := inParallel(b.N, func() {
			if err := alone(b.Context()); err != nil {
				b.Errorf("the library: %v", err)
			}
		}).Seconds()
		deliveries := make(chan *eventhook.Delivery, b.N) // made before, as those that the dispatcher has read
		for range b.N {
			deliveries <- f.delivery("application/json", order)
		}
		own := inParallel(b.N, func() {
			if a := f.target.Transport.Send(b.Context(), <-deliveries, 1); !a.Succeeded() {
				b.Errorf("the gateway's client: %s: %s", a.ErrorClass, a.Error)
			}
		}).Seconds()
		ratios, rates, bareRates = append(ratios, bare/own), append(rates, float64(b.N)/own), append(bareRates, float64(b.N)/bare)
	}
	same := func(v float64) float64 { return v }
	b.ReportMetric(measure.Median(rates, same), "messages/s")
	b.ReportMetric(measure.Median(bareRates, same), "library_messages/s")
	ratio := measure.AtLeast("messages by the gateway's client / by the library alone", measure.Median(ratios, same), minThroughput)
	ratio.Report(b, "of_library")
}

// inParallel calls f n times, benchSlots at once, and returns how long the calls took.
func inParallel(n int, f func()) time.Duration {
	var calls atomic.Int64
	var wait sync.WaitGroup
	start := time.Now()
	for range benchSlots {
		wait.Go(func() {
			for calls.Add(1) <= int64(n) {
				f()
			}
		})
	}
	wait.Wait()
	return time.Since(start)
}

func BenchmarkAMQP(b *testing.B) {
	s := newAMQP(b)
	s.queue("bench", amqp.Table{"x-max-length": 1000})
	f := open(b, s.target(map[string]any{"exchange": nil, "routing_key": "bench"}))
	f.sent(f.delivery("application/json", order))
	first, _, err := s.channel.Get("bench", true)
	if err != nil {
		b.Fatal(err)
	}
	message := amqp.Publishing{Headers: first.Headers, ContentType: first.ContentType, MessageId: first.MessageId,
		Type: first.Type, Timestamp: first.Timestamp, DeliveryMode: first.DeliveryMode, Body: first.Body}
	conn := s.dial()
	defer conn.Close()
	ch := must(conn.Channel())
	if err := ch.Confirm(false); err != nil {
		b.Fatal(err)
	}
	benchClient(b, f, func(ctx context.Context) error {
		c, err := ch.PublishWithDeferredConfirm("", "bench", true, false, message)
		if err != nil {
			return err
		}
		if isStored, err := c.WaitContext(ctx); err != nil || !isStored {
			return errors.Join(errors.New("the message was refused"), err)
		}
		return nil
	})
}

func BenchmarkRedisStream(b *testing.B) {
	s := newRedis(b)
	f := open(b, s.target(map[string]any{"max_length": 1000}))
	f.sent(f.delivery("application/json", order))
	entry := s.do(b, 0, "XRANGE", "orders", "-", "+").([]any)[0].([]any)
	command := redis.Args{"bench", "MAXLEN", "~", 1000, "*"}.Add(entry[1].([]any)...)
	pool := &redis.Pool{MaxIdle: benchSlots, Dial: func() (redis.Conn, error) {
		return redis.Dial("tcp", s.Address(), redis.DialPassword(secret))
	}}
	defer pool.Close()
	benchClient(b, f, func(context.Context) error {
		c := pool.Get()
		defer c.Close()
		_, err := c.Do("XADD", command...)
		return err
	})
}
