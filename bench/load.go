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
}

// benchPath is where the bench's source receives.
var benchPath = ingest.Path(benchTenant, benchSource)

// message is a signed GitHub push. Path and delivery id are written into it
// before each sending, so that a request costs the sender next to nothing.
type message struct {
	raw          []byte
	pathAt, idAt int
}

func (t target) message() message {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	const method = "POST "
	head := fmt.Sprintf(method+"%s HTTP/1.1\r\nHost: %s\r\nUser-Agent: GitHub-Hookshot/bench\r\nAccept: */*\r\nContent-Type: application/json\r\n"+
		"X-GitHub-Event: push\r\nX-Hub-Signature-256: sha256=%s\r\nContent-Length: %d\r\nX-GitHub-Delivery: ",
		t.paths[0], t.address, hex.EncodeToString(mac.Sum(nil)), len(body))
	raw := append([]byte(head), bytes.Repeat([]byte("0"), idDigits)...)
	return message{append(append(raw, "\r\n\r\n"...), body...), len(method), len(head)}
}

// next makes it another one, to the path whose turn it is.
func (m message) next(t target) error {
	n := serial.Add(1)
	path := t.paths[n%uint64(len(t.paths))]
	if id := fmt.Appendf(m.raw[m.idAt:m.idAt], "%0*x", idDigits, n); len(id) != idDigits || len(path) != len(t.paths[0]) {
		return fmt.Errorf("id %q or path %q is of another length", id, path)
	}
	copy(m.raw[m.pathAt:], path)
	return nil
}

// load is what one measurement of sending gave.
type load struct {
	ok       int
	perSec   float64
	p50, p99 time.Duration
}

// send sends over a number of connections, each one request at a time, for a
// while. Any answer but 200 is an error.
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
		if err := readAnswer(in); err != nil {
			return nil, err
		}
		latencies = append(latencies, time.Since(began))
	}
	return latencies, nil
}

// readAnswer reads one answer and holds that it is 200.
func readAnswer(in *bufio.Reader) error {
	line, err := in.ReadSlice('\n')
	if err != nil {
		return err
	}
	if !bytes.HasPrefix(line, []byte("HTTP/1.1 200")) {
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
