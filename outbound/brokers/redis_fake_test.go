package brokers_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/egress"
)

var fakeRedis = map[string]any{"type": "redis_stream", "url": "redis://redis.example", "stream": "orders"}

// redisCommands calls answer for each command of a client, with its words. It ends with the connection.
func redisCommands(answer func(c net.Conn, words []string)) func(net.Conn) {
	return func(c net.Conn) {
		in := bufio.NewReader(c)
		number := func() int {
			line, err := in.ReadString('\n')
			if err != nil {
				return 0
			}
			return must(strconv.Atoi(strings.TrimSpace(line[1:])))
		}
		for n := number(); n > 0; n = number() {
			words := make([]string, n)
			for i := range words {
				word := make([]byte, number())
				_, _ = io.ReadFull(in, word)
				_, _ = in.Discard(len("\r\n"))
				words[i] = string(word)
			}
			answer(c, words)
		}
	}
}

// redisAdds answers commands but XADD with OK, and calls answer for the nth XADD.
func redisAdds(answer func(c net.Conn, n int)) func(net.Conn) {
	return func(c net.Conn) {
		adds := 0
		redisCommands(func(c net.Conn, words []string) {
			if words[0] != "XADD" {
				_, _ = io.WriteString(c, "+OK\r\n")
				return
			}
			adds++
			answer(c, adds)
		})(c)
	}
}

// The server answers commands only after it has read as many as the client has at most without replies.
func TestRedisCommandsDoNotWaitForEachOther(t *testing.T) {
	const batch, messages = 1024, 3 * 1024
	serve := redisAdds(func(c net.Conn, n int) {
		for i := range batch {
			if n%batch == 0 {
				_, _ = fmt.Fprintf(c, "$4\r\n%d\r\n", 1000+n-batch+i)
			}
		}
	})
	withFake(t, fakeRedis, serve, func(t *testing.T, f *fixture, b *fakeBroker) {
		receipts := map[string]bool{}
		for _, a := range f.all(messages) {
			if !a.Succeeded() {
				t.Fatalf("%s: %s", a.ErrorClass, a.Error)
			}
			receipts[a.Excerpt] = true
		}
		if len(receipts) != messages || b.connections() != 1 {
			t.Errorf("got %d receipts by %d connections, want %d by one", len(receipts), b.connections(), messages)
		}
	})
}

// A server of Redis without TLS waits for the end of the first line, which no TLS handshake has.
func TestRedisWithoutTLS(t *testing.T) {
	const want = "redis.example:6379 does not answer the TLS handshake; check whether it uses TLS"
	serve := func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }
	secure := targetOf(fakeRedis, "url", "rediss://redis.example")
	for _, seconds := range []int{3, 60} {
		withFake(t, targetOf(secure, "timeout_seconds", seconds), serve, func(_ *testing.T, f *fixture, _ *fakeBroker) {
			f.failsWith(eventhook.ErrorTLS, want)
		})
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		source := place(t, targetJSON(map[string]any{"type": "redis_stream", "url": "rediss://redis.example", "stream": "orders", "group": "g"}, nil))
		_, err := newBrokers(&fakeBroker{Client: egress.New(egress.Policy{}), serve: serve}).OpenConsumer(ctx, source)
		if wantError(t, err, eventhook.ErrorTLS); err.Error() != want {
			t.Errorf("got %q of a consumer, want %q", err, want)
		}
	})
}

func TestAConsumerOfASilentRedisTellsSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		serve := func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }
		source := place(t, targetJSON(map[string]any{"type": "redis_stream", "url": "redis://redis.example", "stream": "orders", "group": "g"}, nil))
		_, err := newBrokers(&fakeBroker{Client: egress.New(egress.Policy{}), serve: serve}).OpenConsumer(ctx, source)
		if wantError(t, err, eventhook.ErrorTimeout); err.Error() != "no answer from redis.example in time" {
			t.Errorf("got %q", err)
		}
	})
}

// A server of another protocol, such as HTTP, answers a command with a line of its own.
func TestAServerThatIsNotRedis(t *testing.T) {
	const want = "the server does not speak the protocol of Redis"
	for claim, answer := range map[string]string{
		"HTTP":            "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n400 Bad Request",
		"an alert of TLS": "\x15\x03\x01\x00\x02\x02\x0a",
	} {
		t.Run(claim, func(t *testing.T) {
			serve := func(c net.Conn) {
				_, _ = c.Read(make([]byte, 1<<10))
				_, _ = io.WriteString(c, answer)
			}
			withFake(t, fakeRedis, serve, func(t *testing.T, f *fixture, b *fakeBroker) {
				f.failsWith(eventhook.ErrorClosed, want)
				source := place(t, targetJSON(map[string]any{"type": "redis_stream", "url": "redis://redis.example", "stream": "orders", "group": "g"}, nil))
				_, err := newBrokers(b).OpenConsumer(t.Context(), source)
				if wantError(t, err, eventhook.ErrorClosed); err.Error() != want {
					t.Errorf("got %q of a consumer, want %q", err, want)
				}
			})
		})
	}
}

func TestASilentRedisIsDialledAgain(t *testing.T) {
	serve := redisAdds(func(net.Conn, int) {})
	withFake(t, targetOf(fakeRedis, "timeout_seconds", 3), serve, func(t *testing.T, f *fixture, b *fakeBroker) {
		f.timesOut(3 * time.Second)
		if b.connections() != 1 {
			t.Errorf("%d connections were made, want one", b.connections())
		}
		f.timesOut(3 * time.Second) // the server has been silent for 6 s
		f.timesOut(3 * time.Second)
		if b.connections() != 2 {
			t.Errorf("%d connections were made, want another one", b.connections())
		}
	})
}

// A server that answers some commands late is not given up.
func TestASlowRedisIsNotDialledAgain(t *testing.T) {
	withFake(t, targetOf(fakeRedis, "timeout_seconds", 3), redisAdds(func(c net.Conn, n int) {
		if n > 1 {
			_, _ = io.WriteString(c, "$3\r\n1-1\r\n") // the reply to the command before
		}
	}), func(t *testing.T, f *fixture, b *fakeBroker) {
		for range 5 {
			f.timesOut(3 * time.Second)
		}
		if b.connections() != 1 {
			t.Errorf("%d connections were made, want one", b.connections())
		}
	})
}

func TestRedisRepliesThatAreNone(t *testing.T) {
	for name, reply := range map[string]string{
		"a huge string":      "$900000000000\r\n",
		"an impossible one":  "$99999999999999999999\r\n",
		"a list":             "*1000000000\r\n",
		"a line without end": "+" + strings.Repeat("x", 5000),
		"two replies":        "$3\r\n1-1\r\n$3\r\n1-2\r\n",
		"no protocol":        "HTTP/1.1 400 Bad Request\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			serve := redisAdds(func(c net.Conn, _ int) { _, _ = io.WriteString(c, reply) })
			withFake(t, fakeRedis, serve, func(t *testing.T, f *fixture, b *fakeBroker) {
				if name != "two replies" {
					f.fails(eventhook.ErrorClosed)
					return
				}
				f.send(f.delivery("application/json", order))
				f.send(f.delivery("application/json", order))
				if b.connections() != 2 {
					t.Errorf("%d connections were made, want another one", b.connections())
				}
			})
		})
	}
}

// A server that reads nothing more holds no attempt, and memory for few messages.
func TestARedisThatReadsNothing(t *testing.T) {
	read := 0
	serve := redisCommands(func(c net.Conn, _ []string) {
		_, _ = io.WriteString(c, "+OK\r\n")
		if read++; read == 2 {
			time.Sleep(forever)
		}
	})
	withFake(t, targetOf(fakeRedis, "timeout_seconds", 2), serve, func(t *testing.T, f *fixture, _ *fakeBroker) {
		f.sent(f.delivery("application/json", order))
		for _, a := range f.all(300) {
			if a.ErrorClass != eventhook.ErrorTimeout || a.Duration != 2*time.Second {
				t.Fatalf("got %q after %s: %s; want a timeout after 2 s", a.ErrorClass, a.Duration, a.Error)
			}
		}
	})
}
