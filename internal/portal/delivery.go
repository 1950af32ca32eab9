package portal

import (
	"net/http"
	"unicode/utf8"

	"github.com/eventhook/eventhook/client"
)

var deliveryPages = []page{
	{pattern: "GET /portal/deliveries/{delivery}", template: "delivery", handle: (*Portal).deliveryPage},
	{pattern: "POST /portal/deliveries/{delivery}/retry", handle: (*Portal).retryDelivery},
}

// deliveryDetail is the data of the page of a delivery.
type deliveryDetail struct {
	client.DeliveryDetail
	Endpoint client.Subscription
	Headers  map[string]string // of the request
	Body     []byte            // of the request; nil if it is not stored or not text
	Size     int
	IsBinary bool
	// Missing is why the request cannot be shown; "" if it can.
	Missing string
	Health  health // of the endpoint
	IsOpen  bool   // it is being sent or is about to be sent
	IsBusy  bool   // it is open, and the endpoint receives deliveries
}

func (p *Portal) deliveryPage(r *request) (view, error) {
	data := deliveryDetail{DeliveryDetail: r.delivery, Endpoint: r.endpoint, Health: healthOf(r.endpoint),
		IsOpen: isOpenStatus(r.delivery.Status)}
	data.IsBusy = data.IsOpen && data.Health.Kind == "ok"
	sent, err := r.api.GetDeliveryRequest(r.Context(), r.tenant(), r.delivery.ID)
	switch {
	case client.StatusOf(err) == http.StatusConflict:
		data.Missing = "The content of this event is no longer stored, or cannot be composed now."
	case client.StatusOf(err) == http.StatusTooManyRequests:
		data.Missing = "The content cannot be shown now, because too many requests arrive. Reload the page in a minute."
	case err != nil:
		return view{}, err
	}
	data.Headers, data.Size = sent.Headers, len(sent.BodyBase64)
	if data.IsBinary = !utf8.Valid(sent.BodyBase64); !data.IsBinary {
		data.Body = sent.BodyBase64
	}
	return view{Title: r.delivery.EventType, Data: data}, nil
}

func (p *Portal) retryDelivery(r *request) (view, error) {
	if _, err := r.api.RetryDelivery(r.detached(), r.tenant(), r.delivery.ID); err != nil {
		return view{}, err
	}
	return redirect(Root+"/deliveries/"+r.delivery.ID, "The delivery is sent again.")
}
