package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// sendBareClient measures the limit of delivering: Go's HTTP client with persistent
// connections and as many concurrent requests to the same sink, which signs, stores
// and records nothing. It returns the successful requests per second.
func sendBareClient(ctx context.Context, url string, atOnce int, length time.Duration) (perSec float64, err error) {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: atOnce}}
	defer client.CloseIdleConnections()
	began := time.Now()
	deadline := began.Add(length)
	var sent atomic.Int64
	errs := make([]error, atOnce)
	var senders sync.WaitGroup
	for i := range atOnce {
		senders.Go(func() {
			for errs[i] == nil && ctx.Err() == nil && time.Now().Before(deadline) {
				if errs[i] = postBare(ctx, client, url); errs[i] == nil {
					sent.Add(1)
				}
			}
		})
	}
	senders.Wait()
	took := time.Since(began)
	for _, err := range errs {
		if err != nil {
			return 0, fmt.Errorf("bare client: %w", err)
		}
	}
	return float64(sent.Load()) / took.Seconds(), ctx.Err()
}

func postBare(ctx context.Context, client *http.Client, url string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	res, err := client.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	if _, err = io.Copy(io.Discard, res.Body); err == nil && res.StatusCode != http.StatusNoContent {
		err = fmt.Errorf("response status %s", res.Status)
	}
	return err
}
