package console

import (
	"cmp"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/web"
)

// deliveryPage is the data of a delivery's page.
type deliveryPage struct {
	client.DeliveryDetail
	Steps   []deliveryStep
	Request *sentRequest
	// NoRequest says why the request cannot be shown.
	NoRequest string
	// Omitted is the number of older attempts that the API does not return.
	Omitted int64
	// IsFinal is true if nothing more happens without an act.
	IsFinal bool
}

// deliveryStep is an attempt in the story of a delivery.
type deliveryStep struct {
	client.DeliveryAttempt
	Number int64
	// Wait is the time since the start of the previous attempt, or since the event.
	Wait time.Duration
	IsOK bool
}

// sentRequest is the request of a delivery, as its receiver gets it.
type sentRequest struct {
	Method  string
	Headers []sentHeader
	Size    int64 // of the body
	Body    web.Shown
	// Curl is a command that sends the request; "" if the body cannot be part of a command.
	Curl   string
	IsText bool
}

type sentHeader struct{ Name, Value string }

func (c *Console) delivery(r *request) (view, error) {
	d, err := r.api.GetDelivery(r.Context(), r.tenant, r.PathValue("id"))
	if err != nil {
		return view{}, err
	}
	p := deliveryPage{DeliveryDetail: d, Steps: deliverySteps(d), Omitted: max(0, d.AttemptCount-int64(len(d.Attempts))),
		IsFinal: d.Status == client.DeliveryStatusSuccess || d.Status == client.DeliveryStatusDead}
	if !web.IsForPart(r.Request) { // a refresh of the story does not show the request
		p.Request, p.NoRequest, err = r.sentRequest(d)
	}
	return view{Title: "Delivery of " + d.EventType, Data: p}, err
}

// deliverySteps returns the story of the attempts.
func deliverySteps(d client.DeliveryDetail) []deliveryStep {
	steps := make([]deliveryStep, len(d.Attempts))
	before, first := d.CreatedAt, d.AttemptCount-int64(len(d.Attempts))
	for i, a := range d.Attempts {
		steps[i] = deliveryStep{DeliveryAttempt: a, Number: first + int64(i) + 1, Wait: a.StartedAt.Sub(before), IsOK: a.Error == nil && a.ErrorClass == nil}
		before = a.StartedAt
	}
	return steps
}

// sentRequest returns the request of a delivery, or why it cannot be shown.
func (r *request) sentRequest(d client.DeliveryDetail) (*sentRequest, string, error) {
	if d.SubscriptionID == nil {
		return nil, "The gateway shows the requests of deliveries to subscriptions. This delivery is to a target of a route.", nil
	}
	most := int64(shownPayload)
	params := client.GetDeliveryRequestParams{MaxBytes: &most}
	found, err := r.api.GetDeliveryRequest(r.Context(), r.tenant, d.ID, params)
	if p, ok := errors.AsType[*client.Problem](err); ok && p.Status != http.StatusUnauthorized {
		return nil, cmp.Or(p.Detail, p.Title), nil
	}
	if err != nil {
		return nil, "", err
	}
	s := &sentRequest{Method: found.Method, Size: found.BodySize}
	if s.IsText = utf8.Valid(web.WholeRunes(found.BodyBase64)); s.IsText {
		s.Body = web.Show(found.BodyBase64, found.BodySize)
	}
	for _, name := range slices.Sorted(maps.Keys(found.Headers)) {
		s.Headers = append(s.Headers, sentHeader{name, found.Headers[name]})
	}
	to := "https://receiver.example/"
	if of, err := r.api.GetSubscription(r.Context(), r.tenant, *d.SubscriptionID); err == nil {
		to = of.URL
	}
	s.Curl = s.curl(to, found.BodyBase64)
	return s, "", nil
}

// maxCurl limits the body that is part of a copied command, in bytes.
const maxCurl = 16 << 10

// curl returns a shell command that sends the request to a URL. The headers have no signatures
// and no credentials.
func (s *sentRequest) curl(to string, body []byte) string {
	if s.Size > maxCurl || !isCopyable(body) {
		return ""
	}
	lines := []string{"curl --globoff --request " + shellQuote(s.Method), "--url " + shellQuote(to)}
	for _, h := range s.Headers {
		if !strings.EqualFold(h.Name, "Content-Length") {
			lines = append(lines, "--header "+shellQuote(h.Name+": "+h.Value))
		}
	}
	return strings.Join(append(lines, "--data-raw "+shellQuote(string(body))), " \\\n  ")
}

// NextNumber is the number of the next attempt.
func (p deliveryPage) NextNumber() int64 { return p.AttemptCount + 1 }

// Class is the class of a failed attempt's error, in words.
func (s deliveryStep) Class() string {
	if s.ErrorClass == nil {
		return "failed"
	}
	return strings.ReplaceAll(*s.ErrorClass, "_", " ")
}
