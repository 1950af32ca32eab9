package portal

import (
	"maps"
	"net/http"
	"strings"
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

// Last returns the index of the last attempt.
func (d *deliveryDetail) Last() int { return len(d.Attempts) - 1 }

func (p *Portal) deliveryPage(r *request) (view, error) {
	data := deliveryDetail{DeliveryDetail: r.delivery, Endpoint: r.endpoint, Health: healthOf(r.endpoint),
		IsOpen: isOpenStatus(r.delivery.Status)}
	data.IsBusy = data.IsOpen && data.Health.Kind == "ok"
	v := view{Title: r.delivery.EventType, Data: &data}
	if web.IsForPart(r.Request) {
		return v, nil // a refresh of the attempts does not show the request
	}
	return v, data.readRequest(r)
}

// readRequest reads the request as the endpoint gets it, with the settings of today.
func (d *deliveryDetail) readRequest(r *request) error {
	most := int64(web.TextLimit)
	params := client.GetDeliveryRequestParams{MaxBytes: &most}
	sent, err := r.api.GetDeliveryRequest(r.Context(), r.tenant(), r.delivery.ID, params)
	switch {
	case client.StatusOf(err) == http.StatusConflict:
		d.Missing = "The content of this event is no longer stored, or cannot be composed now."
	case client.StatusOf(err) == http.StatusTooManyRequests, client.StatusOf(err) == http.StatusServiceUnavailable:
		d.Missing = "The content cannot be shown now, because too many requests arrive. Reload the page in a minute."
	case err != nil:
		return err
	}
	maps.DeleteFunc(sent.Headers, func(name, _ string) bool { return isOfAttempt(name) })
	d.Headers, d.Size = sent.Headers, sent.BodySize
	if d.IsBinary = !utf8.Valid(web.WholeRunes(sent.BodyBase64)); !d.IsBinary {
		d.Body = web.Show(sent.BodyBase64, sent.BodySize)
	}
	return nil
}

// isOfAttempt reports whether each attempt has a value of its own for a header. The API tells those of
// the next attempt.
func isOfAttempt(name string) bool {
	return strings.EqualFold(name, "Webhook-Timestamp") || strings.HasSuffix(strings.ToLower(name), "-attempt")
}

func (p *Portal) retryDelivery(r *request) (view, error) {
	if _, err := r.api.RetryDelivery(r.detached(), r.tenant(), r.delivery.ID); err != nil {
		return view{}, err
	}
	return redirect(Root+"/deliveries/"+r.delivery.ID, "The delivery is sent again.")
}
