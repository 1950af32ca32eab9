package brokers_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/egress"
)

var fakeAMQP = map[string]any{"type": "amqp", "url": "amqp://rabbit.example", "exchange": "orders",
	"routing_key": "orders"}

// Methods of AMQP 0-9-1: the class and the method.
const (
	connectionStart   = 10<<16 | 10
	connectionStartOK = 10<<16 | 11
	connectionTune    = 10<<16 | 30
	connectionOpen    = 10<<16 | 40
	connectionOpenOK  = 10<<16 | 41
	connectionClose   = 10<<16 | 50
	connectionCloseOK = 10<<16 | 51
	channelOpen       = 20<<16 | 10
	channelOpenOK     = 20<<16 | 11
	confirmSelect     = 85<<16 | 10
	confirmSelectOK   = 85<<16 | 11
	basicPublish      = 60<<16 | 40
	basicReturn       = 60<<16 | 50
	basicAck          = 60<<16 | 80
)

// Types of frames.
const (
	frameMethod, frameHeader, frameBody, frameHeartbeat = 1, 2, 3, 8
	frameEnd                                            = 0xce
)

// amqpClient is the connection of a client of a fake server.
type amqpClient struct{ net.Conn }

func (c amqpClient) frame(kind byte, channel uint16, payload []byte) error {
	header := binary.BigEndian.AppendUint16([]byte{kind}, channel)
	header = binary.BigEndian.AppendUint32(header, uint32(len(payload)))
	_, err := c.Write(append(append(header, payload...), frameEnd))
	return err
}

func (c amqpClient) method(channel uint16, method uint32, arguments ...byte) error {
	return c.frame(frameMethod, channel, append(binary.BigEndian.AppendUint32(nil, method), arguments...))
}

// next reads a frame. method is 0 unless it is one of a method.
func (c amqpClient) next() (channel uint16, method uint32, err error) {
	header := make([]byte, 7)
	if _, err := io.ReadFull(c, header); err != nil {
		return 0, 0, err
	}
	payload := make([]byte, binary.BigEndian.Uint32(header[3:])+1)
	if _, err := io.ReadFull(c, payload); err != nil {
		return 0, 0, err
	}
	if header[0] == frameMethod {
		method = binary.BigEndian.Uint32(payload)
	}
	return binary.BigEndian.Uint16(header[1:]), method, nil
}

// amqpBroker opens connections and channels. It calls answer for each frame of a
// message, and for heartbeats, whose channel is 0.
func amqpBroker(answer func(c amqpClient, channel uint16, method uint32)) func(net.Conn) {
	return func(conn net.Conn) {
		c := amqpClient{conn}
		_, _ = io.ReadFull(c, make([]byte, len("AMQP0091")))
		_ = c.method(0, connectionStart, []byte("\x00\x09\x00\x00\x00\x00\x00\x00\x00\x05PLAIN\x00\x00\x00\x05en_US")...)
		for {
			channel, method, err := c.next()
			switch {
			case err != nil:
				return
			case method == connectionStartOK:
				_ = c.method(0, connectionTune, 0, 100, 0, 1, 0, 0, 0, 60)
			case method == connectionOpen:
				_ = c.method(0, connectionOpenOK, 0)
			case method == connectionClose:
				_ = c.method(0, connectionCloseOK)
			case method == channelOpen:
				_ = c.method(channel, channelOpenOK, 0, 0, 0, 0)
			case method == confirmSelect:
				_ = c.method(channel, confirmSelectOK)
			case channel == 0 && method != 0: // connection.tune-ok
			default:
				answer(c, channel, method)
			}
		}
	}
}

// ack confirms messages up to a number.
func (c amqpClient) ack(channel uint16, number int) {
	const multiple = 1
	_ = c.method(channel, basicAck, append(binary.BigEndian.AppendUint64(nil, uint64(number)), multiple)...)
}

func TestAMQPMessagesDoNotWaitForEachOther(t *testing.T) {
	const messages = 200
	published := 0
	serve := amqpBroker(func(c amqpClient, channel uint16, method uint32) {
		if method != basicPublish {
			return
		}
		if published++; published == messages {
			c.ack(channel, messages)
		}
	})
	withFake(t, fakeAMQP, serve, func(t *testing.T, f *fixture, b *fakeBroker) {
		for _, a := range f.all(messages) {
			if !a.Succeeded() {
				t.Fatalf("%s: %s", a.ErrorClass, a.Error)
			}
		}
		if b.connections() != 1 {
			t.Errorf("%d connections were made, want one", b.connections())
		}
	})
}

// The server sends heartbeats, so that the connection stays.
func TestAnAMQPServerThatNeverConfirms(t *testing.T) {
	serve := amqpBroker(func(c amqpClient, channel uint16, method uint32) {
		if channel == 0 && method == 0 {
			_ = c.frame(frameHeartbeat, 0, nil)
		}
	})
	withFake(t, targetOf(fakeAMQP, "timeout_seconds", 20), serve, func(t *testing.T, f *fixture, b *fakeBroker) {
		f.timesOut(20 * time.Second)
		f.timesOut(20 * time.Second)
		if b.connections() != 1 {
			t.Errorf("%d connections were made, want one", b.connections())
		}
	})
}

// Without heartbeats, the connection ends before the message does.
func TestAnAMQPServerWithoutHeartbeats(t *testing.T) {
	serve := amqpBroker(func(amqpClient, uint16, uint32) {})
	withFake(t, targetOf(fakeAMQP, "timeout_seconds", 60), serve, func(t *testing.T, f *fixture, b *fakeBroker) {
		if a := f.fails(eventhook.ErrorClosed); a.Duration > 20*time.Second {
			t.Errorf("the attempt ended after %s, want at most 20 s", a.Duration)
		}
		f.fails(eventhook.ErrorClosed)
		if b.connections() != 2 {
			t.Errorf("%d connections were made, want two", b.connections())
		}
	})
}

// A returned message without an end ends the connection.
func TestAnAMQPServerThatSendsTooMuch(t *testing.T) {
	var sent int
	serve := amqpBroker(func(c amqpClient, channel uint16, method uint32) {
		if method != basicPublish {
			return
		}
		_ = c.method(channel, basicReturn, []byte("\x01\x38\x00\x00\x00")...)
		_ = c.frame(frameHeader, channel, []byte("\x00\x3c\x00\x00\x7f\xff\xff\xff\xff\xff\xff\xff\x00\x00"))
		part := bytes.Repeat([]byte("x"), 60_000)
		for sent < 100<<20 && c.frame(frameBody, channel, part) == nil {
			sent += len(part)
		}
	})
	withFake(t, fakeAMQP, serve, func(t *testing.T, f *fixture, _ *fakeBroker) {
		f.fails(eventhook.ErrorClosed)
		time.Sleep(time.Second) // of the bubble
		if most := 2 << 20; sent > most {
			t.Errorf("the server sent %d bytes, want at most %d", sent, most)
		}
	})
}

// Answers that belong to no method stop the reader of the library. The bubble fails the test unless all
// goroutines end.
func TestAnAMQPServerThatAnswersTwice(t *testing.T) {
	for name, c := range map[string]struct {
		serve func(net.Conn)
		class eventhook.ErrorClass
	}{
		"on a channel": {amqpBroker(func(c amqpClient, channel uint16, method uint32) {
			if method == basicPublish {
				_ = c.method(channel, channelOpenOK, 0, 0, 0, 0)
			}
		}), eventhook.ErrorTimeout},
		"on the connection": {amqpBroker(func(c amqpClient, _ uint16, method uint32) {
			if method == basicPublish {
				_ = c.method(0, connectionOpenOK, 0)
			}
		}), eventhook.ErrorTimeout},
		"in the handshake": {func(conn net.Conn) {
			const openOK = "\x01\x00\x00\x00\x00\x00\x05\x00\x0a\x00\x29\x00\xce"
			go io.WriteString(conn, strings.Repeat(openOK, 4))
			_, _ = io.Copy(io.Discard, conn)
		}, eventhook.ErrorClosed},
	} {
		t.Run(name, func(t *testing.T) {
			withFake(t, fakeAMQP, c.serve, func(_ *testing.T, f *fixture, _ *fakeBroker) { f.fails(c.class) })
		})
	}
}

// A server that reads nothing more holds no attempt, and memory for few messages. This test is not in
// a bubble of synctest, because messages wait in a mutex of the library.
func TestAnAMQPServerThatReadsNothing(t *testing.T) {
	b := &fakeBroker{Client: egress.New(egress.Policy{})}
	end := make(chan struct{})
	defer close(end)
	b.serve = amqpBroker(func(c amqpClient, channel uint16, method uint32) {
		if b.connections() == 1 {
			<-end
		} else if method == basicPublish {
			c.ack(channel, 1)
		}
	})
	f := openBy(t, targetJSON(targetOf(fakeAMQP, "timeout_seconds", 1), nil), b)
	for _, a := range f.all(300) {
		isEnded := a.ErrorClass == eventhook.ErrorTimeout || a.ErrorClass == eventhook.ErrorClosed
		if !isEnded || a.Duration > 10*time.Second {
			t.Fatalf("got %q after %s: %s; want a timeout after 1 s", a.ErrorClass, a.Duration, a.Error)
		}
	}
	for range 5 { // the connection is being closed
		if f.send(f.delivery("application/json", order)).Succeeded() {
			return
		}
	}
	t.Error("the connection is still open")
}
