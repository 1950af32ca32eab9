package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eventhook/eventhook/ingest"
)

// body is 1 KB of JSON, as a provider might send.
var body = func() []byte {
	const size = 1024
	b := []byte(`{"ref":"refs/heads/main","repository":{"full_name":"acme/shop"},"note":"`)
	b = append(b, bytes.Repeat([]byte("lorem ipsum "), size/12)...)[:size-2]
	return append(b, `"}`...)
}()

// serial makes every delivery id of a run unique.
var serial atomic.Uint64

const idDigits = 16

// target is where to send: to the paths in turn, which are of one length.
type target struct {
	address string
	paths   []string
	// publishes is the type of events that are published with key, instead of
	// sending webhooks.
	publishes, key string
	stamps         bool   // each body tells when it was sent, for a sink
	body           []byte // of each request; nil is 1 KB
}

// benchPath is where the bench's source receives.
var benchPath = ingest.Path(benchTenant, benchSource)

// message is a signed GitHub push, or an event to publish. What differs from
// one to the next is written into it before each sending, so that a request
// costs the sender next to nothing.
type message struct {
	raw          []byte
	pathAt, idAt int
	// Of a stamped one: where the time of sending is, where its body begins, and
	// where the signature of that is, 0 without one.
	stampAt, bodyAt, signatureAt int
	answer                       string // how its answer begins
}

const method = "POST "

// stamped is a member that a body begins with. Its number is that of the
// nanoseconds since 1970 at the sending, which have as many digits until 2286.
const stamped, unstamped = `{"sent_at":1000000000000000000,`, `{`

func (t target) message() message {
	if t.publishes != "" {
		return t.publishing()
	}
	body := t.stamped()
	head := fmt.Sprintf(method+"%s HTTP/1.1\r\nHost: %s\r\nUser-Agent: GitHub-Hookshot/bench\r\nAccept: */*\r\nContent-Type: application/json\r\n"+
		"X-GitHub-Event: push\r\nContent-Length: %d\r\nX-Hub-Signature-256: sha256=", t.paths[0], t.address, len(body))
	m := message{pathAt: len(method), answer: "HTTP/1.1 200"}
	m.raw = hex.AppendEncode([]byte(head), sign(body))
	m.raw = append(m.raw, "\r\nX-GitHub-Delivery: "...)
	m.idAt = len(m.raw)
	m.raw = append(append(m.raw, zeros+"\r\n\r\n"...), body...)
	if t.stamps {
		m.stamp(len(body))
		m.signatureAt = len(head)
	}
	return m
}

var zeros = strings.Repeat("0", idDigits)

// publishing is an event whose data is the body and a number of its own.
func (t target) publishing() message {
	data := t.stamped()
	const id = `,"id":"`
	data = append(data[:len(data)-1:len(data)-1], id+zeros+`"}`...)
	event := fmt.Appendf(nil, `{"event_type":%q,"data":%s}`, t.publishes, data)
	m := message{pathAt: len(method), answer: "HTTP/1.1 202"}
	m.raw = fmt.Appendf(nil, method+"%s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		t.paths[0], t.address, t.key, len(event), event)
	m.idAt = bytes.LastIndex(m.raw, []byte(id)) + len(id)
	if t.stamps {
		m.stamp(len(event))
	}
	return m
}

// stamped is a copy of the body, with the time of sending if that is wanted.
func (t target) stamped() []byte {
	body := body
	if t.body != nil {
		body = t.body
	}
	if !t.stamps {
		return slices.Clone(body)
	}
	return append([]byte(stamped), bytes.TrimPrefix(body, []byte(unstamped))...)
}

// stamp finds the time of sending in a message whose body has a length.
func (m *message) stamp(length int) {
	m.bodyAt = len(m.raw) - length
	m.stampAt = m.bodyAt + bytes.Index(m.raw[m.bodyAt:], []byte(stamped)) + len(`{"sent_at":`)
}

func sign(body []byte) []byte {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	return mac.Sum(nil)
}

// next makes it another one, to the path whose turn it is.
func (m message) next(t target) error {
	n := serial.Add(1)
	path := t.paths[n%uint64(len(t.paths))]
	if id := fmt.Appendf(m.raw[m.idAt:m.idAt], "%0*x", idDigits, n); len(id) != idDigits || len(path) != len(t.paths[0]) {
		return fmt.Errorf("id %q or path %q is of another length", id, path)
	}
	copy(m.raw[m.pathAt:], path)
	if m.stampAt > 0 {
		strconv.AppendInt(m.raw[m.stampAt:m.stampAt], time.Now().UnixNano(), 10)
	}
	if m.signatureAt > 0 {
		hex.AppendEncode(m.raw[m.signatureAt:m.signatureAt], sign(m.raw[m.bodyAt:]))
	}
	return nil
}

// load is what one measurement of sending gave.
type load struct {
	ok       int
	perSec   float64
	p50, p99 time.Duration
}

// send sends over a number of connections, each one request at a time, for a
// while. Any other answer than that of success is an error.
func send(ctx context.Context, to target, connections int, length time.Duration) (load, error) {
	latencies := make([][]time.Duration, connections)
	errs := make([]error, connections)
	began := time.Now()
	deadline := began.Add(length)
	var senders sync.WaitGroup
	for i := range connections {
		senders.Go(func() {
			latencies[i], errs[i] = sendOn(ctx, to, deadline)
		})
	}
	senders.Wait()
	took := time.Since(began)
	for _, err := range errs {
		if err != nil {
			return load{}, err
		}
	}
	all := slices.Concat(latencies...)
	if len(all) == 0 {
		return load{}, fmt.Errorf("nothing was sent")
	}
	return load{ok: len(all), perSec: float64(len(all)) / took.Seconds(), p50: percentile(all, 50), p99: percentile(all, 99)}, nil
}

func sendOn(ctx context.Context, to target, deadline time.Time) (latencies []time.Duration, err error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", to.address)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	m := to.message()
	in := bufio.NewReader(conn)
	for ctx.Err() == nil && time.Now().Before(deadline) {
		if err := m.next(to); err != nil {
			return nil, err
		}
		began := time.Now()
		if _, err := conn.Write(m.raw); err != nil {
			return nil, err
		}
		if err := readAnswer(in, m.answer); err != nil {
			return nil, err
		}
		latencies = append(latencies, time.Since(began))
	}
	return latencies, nil
}

// readAnswer reads one answer and holds that it begins as is wanted.
func readAnswer(in *bufio.Reader, want string) error {
	line, err := in.ReadSlice('\n')
	if err != nil {
		return err
	}
	if !bytes.HasPrefix(line, []byte(want)) {
		return fmt.Errorf("answered %q", bytes.TrimSpace(line))
	}
	length := 0
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return err
		}
		if len(line) <= 2 {
			break
		}
		if v, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(v))); err != nil {
				return err
			}
		}
	}
	_, err = in.Discard(length)
	return err
}
