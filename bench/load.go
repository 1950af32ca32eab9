package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/eventhook/eventhook/bench/measure"
)

// loadResult is the result of sending for some time.
type loadResult struct {
	ok       int
	perSec   float64
	p50, p99 time.Duration
}

// send sends over several connections for some time, one request at a time on each.
// Any response but a success is an error.
func send(ctx context.Context, to requestSpec, connections int, length time.Duration) (loadResult, error) {
	return sendToAll(ctx, []requestSpec{to}, connections, length)
}

// sendToAll sends as send does. The servers have equal parts of the connections.
func sendToAll(ctx context.Context, to []requestSpec, connections int, length time.Duration) (loadResult, error) {
	latencies := make([][]time.Duration, connections)
	errs := make([]error, connections)
	began := time.Now()
	deadline := began.Add(length)
	var senders sync.WaitGroup
	for i := range connections {
		senders.Go(func() {
			latencies[i], errs[i] = sendOn(ctx, to[i%len(to)], deadline)
		})
	}
	senders.Wait()
	took := time.Since(began)
	for _, err := range errs {
		if err != nil {
			return loadResult{}, err
		}
	}
	all := slices.Concat(latencies...)
	if len(all) == 0 {
		return loadResult{}, fmt.Errorf("no request was sent")
	}
	return loadResult{ok: len(all), perSec: float64(len(all)) / took.Seconds(), p50: measure.Percentile(all, 50), p99: measure.Percentile(all, 99)}, nil
}

func sendOn(ctx context.Context, to requestSpec, deadline time.Time) (latencies []time.Duration, err error) {
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

// readAnswer reads one response and checks its first bytes.
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

// sendPaced sends requests at a constant rate for some time, over several connections.
func sendPaced(ctx context.Context, to requestSpec, perSecond int, length time.Duration) error {
	const connections = 10
	errs := make([]error, connections)
	deadline := time.Now().Add(length)
	var senders sync.WaitGroup
	for i := range connections {
		senders.Go(func() {
			errs[i] = sendPacedOn(ctx, to, time.Second*connections/time.Duration(perSecond), deadline)
		})
		time.Sleep(time.Second / time.Duration(perSecond))
	}
	senders.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func sendPacedOn(ctx context.Context, to requestSpec, every time.Duration, deadline time.Time) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", to.address)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	m, in := to.message(), bufio.NewReader(conn)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for time.Now().Before(deadline) && ctx.Err() == nil {
		if err := m.next(to); err != nil {
			return err
		}
		if _, err := conn.Write(m.raw); err != nil {
			return err
		}
		if err := readAnswer(in, m.answer); err != nil {
			return err
		}
		<-tick.C
	}
	return ctx.Err()
}
