package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"
)

// serveSink is the main function of a sink process. It returns when ctx ends.
func serveSink(ctx context.Context, address string) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	fmt.Println(sinkReady + l.Addr().String())
	server := &http.Server{Handler: newSink(), ReadHeaderTimeout: time.Minute}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	_ = server.Serve(l) // closed when ctx ends
	return nil
}

const sinkReady = "sink at "

// sinkProcess is a sink in a separate process.
type sinkProcess struct {
	*process
	address string
}

func startSink(ctx context.Context) (*sinkProcess, error) {
	p, address, err := start(ctx, sinkReady, os.Args[0], nil, "-sink", "127.0.0.1:0")
	return &sinkProcess{p, address}, err
}

// url returns the URL of a receiver that answers after a delay, in the format of
// time.ParseDuration, or never.
func (s *sinkProcess) url(delay, name string) string {
	return "http://" + s.address + "/" + delay + "/" + name
}

func (s *sinkProcess) reset(ctx context.Context) error {
	_, err := s.request(ctx, http.MethodDelete)
	return err
}

func (s *sinkProcess) tally(ctx context.Context) (t tally, err error) {
	raw, err := s.request(ctx, http.MethodGet)
	if err == nil {
		err = json.Unmarshal(raw, &t)
	}
	return t, err
}

func (s *sinkProcess) request(ctx context.Context, method string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, "http://"+s.address+"/", nil)
	if err != nil {
		return nil, err
	}
	return successBody(http.DefaultClient, r)
}

// successBody sends a request and returns the body of the response. A status other
// than success is an error.
func successBody(c *http.Client, r *http.Request) ([]byte, error) {
	res, err := c.Do(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode/100 != http.StatusOK/100 {
		err = fmt.Errorf("%s %s: %s %s", r.Method, r.URL, res.Status, body)
	}
	return body, err
}
