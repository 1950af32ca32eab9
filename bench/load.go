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

// request is a signed GitHub push; the delivery id is written into it at idAt
// before each sending, so that a request costs the sender next to nothing.
func request(address string) (raw []byte, idAt int) {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: GitHub-Hookshot/bench\r\nAccept: */*\r\nContent-Type: application/json\r\n"+
		"X-GitHub-Event: push\r\nX-Hub-Signature-256: sha256=%s\r\nContent-Length: %d\r\nX-GitHub-Delivery: ",
		ingest.Path("bench", "github"), address, hex.EncodeToString(mac.Sum(nil)), len(body))
	raw = append([]byte(head), bytes.Repeat([]byte("0"), idDigits)...)
	return append(append(raw, "\r\n\r\n"...), body...), len(head)
}

// load is what one measurement of sending gave.
type load struct {
	ok       int
	perSec   float64
	p50, p99 time.Duration
}

// send sends over a number of connections, each one request at a time, for a
// while. Any answer but 200 is an error.
func send(ctx context.Context, address string, connections int, length time.Duration) (load, error) {
	latencies := make([][]time.Duration, connections)
	errs := make([]error, connections)
	began := time.Now()
	deadline := began.Add(length)
	var senders sync.WaitGroup
	for i := range connections {
		senders.Go(func() {
			latencies[i], errs[i] = sendOn(ctx, address, deadline)
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
	slices.Sort(all)
	if len(all) == 0 {
		return load{}, fmt.Errorf("nothing was sent")
	}
	return load{ok: len(all), perSec: float64(len(all)) / took.Seconds(), p50: all[len(all)/2], p99: all[len(all)*99/100]}, nil
}

func sendOn(ctx context.Context, address string, deadline time.Time) (latencies []time.Duration, err error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	raw, idAt := request(address)
	in := bufio.NewReader(conn)
	for ctx.Err() == nil && time.Now().Before(deadline) {
		id := fmt.Appendf(raw[idAt:idAt], "%0*x", idDigits, serial.Add(1))
		if len(id) != idDigits {
			return nil, fmt.Errorf("id %q", id)
		}
		began := time.Now()
		if _, err := conn.Write(raw); err != nil {
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
