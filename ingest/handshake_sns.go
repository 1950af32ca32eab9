package ingest

import (
	"context"
	"errors"
	"fmt"
	neturl "net/url"
	"time"

	"github.com/eventhook/eventhook/verify"
)

// Confirm makes a GET request to url, which confirms a subscription, and fails
// unless the answer is 200. It follows no redirect, and its error does not
// repeat the url, which holds a token. Safe for concurrent use.
type Confirm func(ctx context.Context, url string) error

// confirmsAtOnce bounds the confirmations under way; others wait their turn.
const confirmsAtOnce = 8

// confirmTopic: Amazon SNS wants a URL of its own to be called. Where nothing
// is verified it is an event, and a person may call it. The end of a
// subscription is an event anyway.
func confirmTopic(c challenge) (*reply, *refused) {
	body := object(c.Body)
	if kind, _ := textOf(body["Type"]); kind != "SubscriptionConfirmation" || c.end.unverified {
		return nil, nil
	}
	url, _ := textOf(body["SubscribeURL"])
	if !isConfirmation(url) {
		return nil, unwanted("the SubscribeURL does not confirm a subscription at Amazon SNS")
	}
	p := emptyReply()
	p.first = func(ctx context.Context, h *Handler, _ challenge) *refused { return h.confirmed(ctx, url) }
	return p, nil
}

// isConfirmation reports whether a URL confirms a subscription, at Amazon SNS
// and nowhere else.
func isConfirmation(url string) bool {
	u, err := neturl.Parse(url)
	if err != nil || u.Scheme != "https" || u.User != nil || !verify.IsSNSHost(u.Host) {
		return false
	}
	query, err := neturl.ParseQuery(u.RawQuery)
	action, ok := only(query["Action"])
	return err == nil && ok && action == "ConfirmSubscription"
}

var errNoConfirm = errors.New("nothing confirms subscriptions")

// confirmed confirms a subscription. If that fails, SNS is to ask again.
func (h *Handler) confirmed(ctx context.Context, url string) *refused {
	const enough = 10 * time.Second
	ctx, cancel := context.WithTimeout(ctx, enough)
	defer cancel()
	err := errNoConfirm
	if h.confirm != nil {
		err = h.inTurn(ctx, func() error { return h.confirm(ctx, url) })
	}
	if err != nil {
		return &refused{outcome: OutcomeFailed, cause: fmt.Errorf("confirm the subscription: %w", err)}
	}
	return nil
}

func (h *Handler) inTurn(ctx context.Context, act func() error) error {
	select {
	case h.confirming <- struct{}{}:
		defer func() { <-h.confirming }()
		return act()
	case <-ctx.Done():
		return ctx.Err()
	}
}
