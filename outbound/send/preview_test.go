package send_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/egress"
	"github.com/eventhook/eventhook/outbound/send"
)

func TestAPreviewIsTheRequestWithoutSignaturesAndCredentials(t *testing.T) {
	receiver := newSink(t, answer(200, "ok"))
	h := send.NewHTTPSender(send.Deps{Client: egress.New(egress.Policy{AllowPrivate: true}), UserAgent: "eventhook/test", Now: func() time.Time { return eventTime }})
	s := sendingOf(newSubscription(receiver.URL+"/hook"), newEvent(), 1)
	if a := h.To(s.to).Send(t.Context(), s.Delivery, 1); !a.Succeeded() {
		t.Fatalf("got %+v, want a success", a)
	}
	want := receiver.last(t)
	header, body, a := h.To(s.to).Preview(t.Context(), s.Delivery)
	if a.Error != "" || string(body) != string(want.body) {
		t.Fatalf("got %q, %+v, want %q", body, a, want.body)
	}
	left := map[string]bool{}
	for name := range want.header {
		if header.Get(name) != want.header.Get(name) {
			left[name] = true
		}
	}
	for _, name := range []string{"Accept-Encoding", "Content-Length"} { // of the transport
		delete(left, name)
	}
	for _, name := range []string{"Authorization", "Webhook-Signature", "X-Eventhook-Signature", "Traceparent"} {
		if !left[name] {
			t.Errorf("the preview has %s, want it left out", name)
		}
		delete(left, name)
	}
	if len(left) > 0 {
		t.Errorf("the preview differs in %v, want the headers of the request", left)
	}
	checkNoSecret(t, "a preview", fmt.Sprint(header, string(body)), currentSecret, authHeader)
}

func TestAPreviewRedactsTheRoutingKeyOfPagerDuty(t *testing.T) {
	h := send.NewHTTPSender(send.Deps{Client: egress.New(egress.Policy{}), Now: time.Now})
	s := sendingOf(newSubscription("https://events.example/v2/enqueue"), newEvent(), 1)
	s.to.Format, s.to.AuthHeader = eventhook.FormatPagerDuty, eventhook.NewSecret("r0uting-key")
	_, body, a := h.To(s.to).Preview(t.Context(), s.Delivery)
	if a.Error != "" || len(body) == 0 {
		t.Fatalf("got %+v, want a request", a)
	}
	checkNoSecret(t, "a preview", string(body), "r0uting-key")
}
