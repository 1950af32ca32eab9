package listen

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/client"
)

// pollInterval is how often the deliveries of a subscription are listed if the stream of events
// reports nothing. listPause is the least time between two lists.
const pollInterval, listPause = 10 * time.Second, 250 * time.Millisecond

// runDeliveries passes the deliveries of a subscription, each once, in the order of their events.
// The stream of events wakes it. It fails if the gateway refuses the request.
func (f *feed) runDeliveries(ctx context.Context, subscription string) error {
	ctx, stop := context.WithCancel(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer stop()
	wake := make(chan struct{}, 1)
	watching.Go(func() { f.watch(ctx, wake) })
	for wait := minPause; ; {
		err := f.readDeliveries(ctx, subscription)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			wait = minPause
			if !f.awaitWake(ctx, wake) {
				return nil
			}
		case !client.IsTemporary(err):
			return err
		default:
			_, _ = fmt.Fprintf(f.hints, "The gateway cannot be read (%v); trying again in %s.\n", err, wait)
			if !f.pause(ctx, wait) {
				return nil
			}
			wait = min(2*wait, maxPause)
		}
	}
}

// awaitWake waits listPause, and then for wake, at most pollInterval. It returns false if ctx ends first.
func (f *feed) awaitWake(ctx context.Context, wake <-chan struct{}) bool {
	if !f.pause(ctx, listPause) {
		return false
	}
	select {
	case <-ctx.Done():
		return false
	case <-wake:
	case <-time.After(pollInterval):
	}
	return true
}

// watch sends to wake whenever the stream of events reports something, until ctx ends.
func (f *feed) watch(ctx context.Context, wake chan<- struct{}) {
	for wait := minPause; ; wait = min(2*wait, maxPause) {
		for _, err := range f.client.Watch(ctx, f.tenant, client.StreamEventsParams{}) {
			if err != nil {
				break
			}
			wait = minPause
			select {
			case wake <- struct{}{}:
			default: // a list is due already
			}
		}
		if !f.pause(ctx, wait) {
			return
		}
	}
}

// readDeliveries passes the deliveries since mark, less the overlap, oldest first.
func (f *feed) readDeliveries(ctx context.Context, subscription string) error {
	params := client.ListDeliveriesParams{SubscriptionID: &subscription, CreatedAfter: new(f.mark.Add(-overlap)), Limit: new(int64(250))}
	found, err := newest(f, f.client.AllDeliveries(ctx, f.tenant, params), "deliveries", *params.CreatedAfter)
	if err != nil {
		return err
	}
	for _, d := range slices.Backward(found) {
		if err := f.passDelivery(ctx, d); err != nil {
			return err
		}
	}
	return nil
}

func (f *feed) passDelivery(ctx context.Context, d client.Delivery) error {
	if !d.CreatedAt.Before(f.since) && f.wantsType(d.EventType) && f.seen.add(d.ID, d.CreatedAt) {
		select {
		case f.out <- arrival{ID: d.EventID, Type: d.EventType, ReceivedAt: d.CreatedAt, DeliveryID: d.ID}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if d.CreatedAt.After(f.mark) {
		f.mark = d.CreatedAt
	}
	return nil
}

// readDelivery returns the request of a delivery as an event, signed with the secrets.
func (f *forwarder) readDelivery(ctx context.Context, a arrival) (e client.EventDetail, body []byte, err error) {
	r, err := f.Client.GetDeliveryRequest(ctx, f.Tenant, a.DeliveryID, client.GetDeliveryRequestParams{})
	if err != nil {
		return e, nil, err
	}
	f.sign(r)
	return client.EventDetail{ID: a.ID, EventType: a.Type, ReceivedAt: a.ReceivedAt, Method: &r.Method, Headers: r.Headers}, r.BodyBase64, nil
}

// sign adds the signatures that the gateway sends to a subscriber: the signatures of Standard Webhooks
// with each secret, and the plain signature with the first secret.
func (f *forwarder) sign(r client.DeliveryRequest) {
	if len(f.Secrets) == 0 {
		return
	}
	r.Headers["Webhook-Timestamp"] = strconv.FormatInt(f.Now().Unix(), 10)
	signed := []byte(r.Headers["Webhook-Id"] + "." + r.Headers["Webhook-Timestamp"] + "." + string(r.BodyBase64))
	var signatures []string
	for _, secret := range f.Secrets {
		signatures = append(signatures, "v1,"+base64.StdEncoding.EncodeToString(sum(eventhook.SigningKey(eventhook.NewSecret(secret)), signed)))
	}
	r.Headers["Webhook-Signature"] = strings.Join(signatures, " ")
	for name := range r.Headers {
		if prefix, ok := strings.CutSuffix(name, "-Delivery-Id"); ok {
			r.Headers[prefix+"-Signature"] = "sha256=" + hex.EncodeToString(sum([]byte(f.Secrets[0]), r.BodyBase64))
			return
		}
	}
}

func sum(key, text []byte) []byte {
	mac := hmac.New(sha256.New, key)
	_, _ = mac.Write(text)
	return mac.Sum(nil)
}
