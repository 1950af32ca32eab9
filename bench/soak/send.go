package soak

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/eventhook/eventhook/ingest"
)

const (
	senders     = 64 // concurrent webhooks; a webhook that is repeated keeps its sender
	resendAfter = 200 * time.Millisecond
	bodyBytes   = 650
)

// send sends webhooks at the rate for the time of the run, and repeats each one until it is
// accepted. It returns when all are accepted, or when ctx ends.
func (r *run) send(ctx context.Context) {
	client := r.fleet.client(senders)
	defer client.CloseIdleConnections()
	due := make(chan int, senders)
	var group sync.WaitGroup
	for range senders {
		group.Go(func() {
			for n := range due {
				r.sendUntilAccepted(ctx, client, n)
			}
		})
	}
	r.pace(ctx, due)
	close(due)
	group.Wait()
}

// pace numbers the events that are due. If all senders are busy, the rate falls.
func (r *run) pace(ctx context.Context, due chan<- int) {
	const interval = 10 * time.Millisecond
	tick := time.NewTicker(interval)
	defer tick.Stop()
	began, sent := time.Now(), 0
	for ctx.Err() == nil && time.Since(began) < r.For {
		behind := int(time.Since(began).Seconds()*float64(r.Rate)) - sent
		for range min(behind, senders) {
			n, ok := r.ledger.next()
			if !ok {
				return
			}
			due <- n
		}
		sent += max(behind, 0)
		<-tick.C
	}
}

func (r *run) sendUntilAccepted(ctx context.Context, client *http.Client, n int) {
	for ctx.Err() == nil {
		if sendOnce(ctx, client, n) == nil {
			r.ledger.accept(n)
			return
		}
		r.ledger.refuse()
		select {
		case <-ctx.Done():
		case <-time.After(resendAfter):
		}
	}
}

func sendOnce(ctx context.Context, client *http.Client, n int) error {
	body := bodyOf(n)
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, baseURL+ingest.Path(tenant, source), bytes.NewReader(body))
	if err != nil {
		return err
	}
	q.Header = http.Header{
		"Content-Type": {"application/json"}, "X-Github-Event": {"push"}, "X-Github-Delivery": {"soak-" + strconv.Itoa(n)},
		"X-Hub-Signature-256": {"sha256=" + hex.EncodeToString(mac.Sum(nil))},
	}
	answer, err := client.Do(q)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("answered %s", answer.Status)
	}
	return nil
}

// bodyOf returns the body of event n. A third of it does not compress, as in the webhooks of providers.
func bodyOf(n int) []byte {
	sum := sha256.Sum256([]byte(strconv.Itoa(n)))
	b := fmt.Appendf(nil, `{"n":%d,"before":"%x","after":"%x","compare":"%x","repository":{"full_name":"acme/shop"},"note":"`, n, sum, sum[8:], sum[16:])
	const end = `"}`
	b = append(b, bytes.Repeat([]byte("lorem ipsum "), bodyBytes/12)...)
	return append(b[:bodyBytes-len(end)], end...)
}

// numberOf returns the number of the event in a text that contains its body, or -1.
func numberOf(text []byte) int {
	const name = `"n":`
	_, rest, found := bytes.Cut(text, []byte(name))
	end := bytes.IndexAny(rest, ",}")
	n, err := strconv.Atoi(string(bytes.TrimSpace(rest[:max(end, 0)])))
	if !found || err != nil {
		return -1
	}
	return n
}
