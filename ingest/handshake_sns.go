package ingest

import (
	"context"
	"errors"
	"fmt"
	neturl "net/url"
	"time"

	"github.com/eventhook/eventhook/verify"
)

// Confirm sends a GET request to url, which confirms a subscription. It returns an error
// unless the status is 200. It follows no redirects, and its error must not contain the url,
// which has a token. It must be safe for concurrent use.
type Confirm func(ctx context.Context, url string) error

// maxConfirmations limits concurrent calls of Confirm; further ones wait for a slot.
const maxConfirmations = 8

// confirmTopic answers a SubscriptionConfirmation of Amazon SNS by calling its SubscribeURL.
// If the source verifies nothing, the request is an event instead, and a user can call the
// URL. An UnsubscribeConfirmation is always an event.
func confirmTopic(in received) (*reply, *refusal) {
	body := object(in.Body)
	if kind, _ := textOf(body["Type"]); kind != "SubscriptionConfirmation" || in.source.neverVerifies {
		return nil, nil
	}
	url, _ := textOf(body["SubscribeURL"])
	if !isConfirmation(url) {
		return nil, unwanted("the SubscribeURL does not confirm a subscription at Amazon SNS")
	}
	p := emptyReply()
	p.action = func(ctx context.Context, h *Handler, _ received) *refusal { return h.confirmSubscription(ctx, url) }
	return p, nil
}

// isConfirmation reports whether a URL confirms a subscription at a host of Amazon SNS.
func isConfirmation(url string) bool {
	u, err := neturl.Parse(url)
	if err != nil || u.Scheme != "https" || u.User != nil || !verify.IsSNSHost(u.Host) {
		return false
	}
	query, err := neturl.ParseQuery(u.RawQuery)
	action, ok := only(query["Action"])
	return err == nil && ok && action == "ConfirmSubscription"
}

var errNoConfirm = errors.New("no Confirm is configured")

// confirmSubscription calls a SubscribeURL. If that fails, the response is a 500 and SNS
// sends the request again.
func (h *Handler) confirmSubscription(ctx context.Context, url string) *refusal {
	const timeout = 10 * time.Second
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := errNoConfirm
	if h.confirm != nil {
		err = h.withConfirmSlot(ctx, func() error { return h.confirm(ctx, url) })
	}
	if err != nil {
		return &refusal{outcome: OutcomeFailed, cause: fmt.Errorf("confirm the subscription: %w", err)}
	}
	return nil
}

// withConfirmSlot calls act in one of the maxConfirmations slots, or returns the error of
// ctx.
func (h *Handler) withConfirmSlot(ctx context.Context, act func() error) error {
	select {
	case h.confirmSlots <- struct{}{}:
		defer func() { <-h.confirmSlots }()
		return act()
	case <-ctx.Done():
		return ctx.Err()
	}
}
