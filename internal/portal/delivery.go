package portal

import (
	"net/http"
	"unicode/utf8"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/web"
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
	Body     web.Shown         // of the request; empty if it is not stored or not text
	Size     int64
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
	if r.Header.Get("HX-Request") != "" { // a refresh shows the attempts only
		return view{Title: r.delivery.EventType, Data: data}, nil
	}
	most := int64(web.TextLimit)
	params := client.GetDeliveryRequestParams{MaxBytes: &most}
	sent, err := r.api.GetDeliveryRequest(r.Context(), r.tenant(), r.delivery.ID, params)
	switch {
	case client.StatusOf(err) == http.StatusConflict:
		data.Missing = "The content of this event is no longer stored, or cannot be composed now."
	case client.StatusOf(err) == http.StatusTooManyRequests:
		data.Missing = "The content cannot be shown now, because too many requests arrive. Reload the page in a minute."
	case err != nil:
		return view{}, err
	}
	data.Headers, data.Size = sent.Headers, sent.BodySize
	if data.IsBinary = !utf8.Valid(web.WholeRunes(sent.BodyBase64)); !data.IsBinary {
		data.Body = web.Show(sent.BodyBase64, sent.BodySize)
	}
	return view{Title: r.delivery.EventType, Data: data}, nil
}

func (p *Portal) retryDelivery(r *request) (view, error) {
	if _, err := r.api.RetryDelivery(r.detached(), r.tenant(), r.delivery.ID); err != nil {
		return view{}, err
	}
	return redirect(Root+"/deliveries/"+r.delivery.ID, "The delivery is sent again.")
}
