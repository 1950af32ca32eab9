package outbound

import (
	"context"

	"github.com/eventhook/eventhook"
)

// Sending is an attempt that is to be made: at a delivery with its event, for
// its subscription.
type Sending struct {
	Subscription *eventhook.Subscription
	Delivery     *eventhook.Delivery
	Attempt      int // from 1
}

// Sender makes an attempt, and returns what came of it: it has no errors of its
// own. It takes no longer than the subscription's timeout. When ctx ends before
// there is an answer, the attempt has failed, and whether it has arrived is not
// known. Safe for concurrent use.
type Sender interface {
	Send(ctx context.Context, s Sending) eventhook.Attempt
}
