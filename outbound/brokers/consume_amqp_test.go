package brokers_test

import (
	"bytes"
	"encoding/binary"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/consumers"
	"github.com/eventhook/eventhook/internal/egress"
)

const (
	basicQos       = 60<<16 | 10
	basicQosOK     = 60<<16 | 11
	basicConsume   = 60<<16 | 20
	basicConsumeOK = 60<<16 | 21
	basicDeliver   = 60<<16 | 60
)

// recorded keeps what a fake server has read.
type recorded struct {
	net.Conn
	all []byte
}

func (r *recorded) Read(p []byte) (int, error) {
	n, err := r.Conn.Read(p)
	r.all = append(r.all, p[:n]...)
	return n, err
}

// consumerTag returns the name that the client has given to its consumer, with its length before it.
func (r *recorded) consumerTag() []byte {
	at := bytes.Index(r.all, []byte("ctag-"))
	return r.all[at-1 : at+int(r.all[at-1])]
}

// deliver sends a message without a body and properties.
func (c amqpClient) deliver(channel uint16, tag []byte, number int) error {
	arguments := binary.BigEndian.AppendUint64(bytes.Clone(tag), uint64(number))
	arguments = append(arguments, 0, 0, 0) // delivered once, without an exchange and a routing key
	if err := c.method(channel, basicDeliver, arguments...); err != nil {
		return err
	}
	return c.frame(frameHeader, channel, []byte("\x00\x3c\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"))
}

// sendsMessages calls test with a consumer of a fake server that sends messages at once, whatever the prefetch is. sent
// counts them.
func sendsMessages(t *testing.T, messages, prefetch, limit int, test func(t *testing.T, c *consumption, sent *atomic.Int64)) {
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(forever) }) // until the connections have ended
		var sent atomic.Int64
		serve := func(conn net.Conn) {
			r := &recorded{Conn: conn}
			amqpBroker(func(c amqpClient, channel uint16, method uint32) {
				switch method {
				case basicQos:
					_ = c.method(channel, basicQosOK)
				case basicConsume:
					tag := r.consumerTag()
					_ = c.method(channel, basicConsumeOK, tag...)
					go func() {
						for n := 1; n <= messages && c.deliver(channel, tag, n) == nil; n++ {
							sent.Add(1)
						}
					}()
				}
			})(r)
		}
		p := place(t, targetJSON(map[string]any{"type": "amqp", "url": "amqp://rabbit.example", "queue": "orders", "prefetch": prefetch}, nil))
		p.Limits.Bytes = limit
		c := must(newBrokers(&fakeBroker{Client: egress.New(egress.Policy{}), serve: serve}).OpenConsumer(t.Context(), p))
		defer c.Close()
		test(t, &consumption{t, c}, &sent)
	})
}

// Messages without data use memory, too.
func TestEmptyMessagesOfAMQPCount(t *testing.T) {
	const messages, limit = 100, 20 << 10
	sendsMessages(t, messages, messages, limit, func(t *testing.T, c *consumption, sent *atomic.Int64) {
		synctest.Wait()
		if n := sent.Load(); n > limit/512 {
			t.Errorf("%d empty messages were read into %d bytes", n, limit)
		}
		for got := 0; got < messages; {
			list := c.next(1)
			c.settle(list)
			got += len(list)
		}
	})
}

func TestAServerOfAMQPMustObserveThePrefetch(t *testing.T) {
	const messages, prefetch = 5, 3
	sendsMessages(t, messages, prefetch, testBytes, func(t *testing.T, c *consumption, _ *atomic.Int64) {
		var list []*consumers.Message
		var err error
		for len(list) < messages && err == nil {
			var some []*consumers.Message
			some, err = c.Receive(t.Context(), messages)
			list = append(list, some...)
		}
		wantError(t, err, eventhook.ErrorClosed)
		if len(list) > prefetch {
			t.Errorf("got %d messages, want at most %d", len(list), prefetch)
		}
	})
}
