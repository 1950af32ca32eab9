package outbound

import (
	"context"
	"net/http"

	"github.com/eventhook/eventhook"
)

// Previewer is a Transport that shows requests without sending them. See send.Receiver.Preview.
type Previewer interface {
	Preview(ctx context.Context, d *eventhook.Delivery) (header http.Header, body []byte, a eventhook.Attempt)
}

// Preview returns the request of a delivery to a subscription, with its event, without signatures
// and credentials. The error is KindConflict if the request cannot be composed.
func (t *Tester) Preview(ctx context.Context, s eventhook.Subscription, d eventhook.Delivery) (header http.Header, body []byte, err error) {
	to, ok := t.Transports.To(&s).(Previewer)
	if !ok {
		return nil, nil, &eventhook.Error{Kind: eventhook.KindConflict, Message: "The requests of this subscription cannot be shown."}
	}
	header, body, a := to.Preview(ctx, &d)
	if header == nil {
		return nil, nil, &eventhook.Error{Kind: eventhook.KindConflict, Message: "The request cannot be composed: " + a.Error + "."}
	}
	return header, body, nil
}
