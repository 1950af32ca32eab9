package send_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/egress"
	"github.com/eventhook/eventhook/outbound/auth"
	"github.com/eventhook/eventhook/outbound/send"
)

// sentByHand sends a composed request as an agent does.
func sentByHand(t *testing.T, request *http.Request) {
	t.Helper()
	request = request.WithContext(t.Context())
	request.RequestURI = ""
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
}

func TestAnAgentSendsWhatTheGatewaySends(t *testing.T) {
	receiver := newSink(t, answer(200, "ok"))
	h := send.NewHTTPSender(send.Deps{Client: egress.New(egress.Policy{AllowPrivate: true}), UserAgent: "eventhook/test", Now: func() time.Time { return eventTime }})
	s := sendingOf(newSubscription(receiver.URL+"/hook"), newEvent(), 3)
	s.Delivery.Lease = eventhook.Lease{Token: 7}
	if a := h.To(s.to).Send(t.Context(), s.Delivery, 3); !a.Succeeded() {
		t.Fatalf("got %+v, want a success", a)
	}
	want := receiver.last(t)
	request, a := h.To(s.to).Compose(t.Context(), s.Delivery, 3)
	if request == nil || a.Error != "" {
		t.Fatalf("got %+v, want a request", a)
	}
	sentByHand(t, request)
	got := receiver.last(t)
	if got.method != want.method || got.path != want.path || string(got.body) != string(want.body) {
		t.Errorf("got %s %s %q, want %s %s %q", got.method, got.path, got.body, want.method, want.path, want.body)
	}
	for name := range want.header {
		if name == "Traceparent" || name == "Accept-Encoding" { // the span, and the transport
			continue
		}
		if got.header.Get(name) != want.header.Get(name) {
			t.Errorf("header %s: got %q, want %q", name, got.header.Get(name), want.header.Get(name))
		}
	}
	again, _ := h.To(s.to).Compose(t.Context(), s.Delivery, 3)
	if first, second := request.Header.Get("Traceparent"), again.Header.Get("Traceparent"); first != second {
		t.Errorf("the spans of one lease are %s and %s, want the same", first, second)
	}
}

func TestAgentsReportWithoutSecrets(t *testing.T) {
	h := send.NewHTTPSender(send.Deps{Client: egress.New(egress.Policy{}), Now: time.Now})
	s := sendingOf(newSubscription("https://user.example/hook"), newEvent(), 1)
	cut := strings.Repeat("x", 100) + currentSecret[:20]
	for claim, c := range map[string]struct{ in, want eventhook.Attempt }{
		"a status":      {eventhook.Attempt{StatusCode: 204, Error: "ignored"}, eventhook.Attempt{StatusCode: 204}},
		"a failure":     {eventhook.Attempt{StatusCode: 503}, eventhook.Attempt{StatusCode: 503, ErrorClass: eventhook.ErrorHTTP5xx, Error: "user.example answered 503 Service Unavailable"}},
		"an error":      {eventhook.Attempt{ErrorClass: eventhook.ErrorConnect, Error: "refused\nby " + currentSecret}, eventhook.Attempt{ErrorClass: eventhook.ErrorConnect, Error: "refused by [redacted]"}},
		"an excerpt":    {eventhook.Attempt{StatusCode: 200, Excerpt: "got " + authHeader}, eventhook.Attempt{StatusCode: 200, Excerpt: "got [redacted]"}},
		"a cut excerpt": {eventhook.Attempt{StatusCode: 200, Excerpt: cut}, eventhook.Attempt{StatusCode: 200, Excerpt: strings.Repeat("x", 100)}},
	} {
		if got, isRenewed := h.To(s.to).Complete(send.Reported{Delivery: s.Delivery, Attempt: 1, Result: c.in}); got != c.want || isRenewed {
			t.Errorf("%s: got %+v, %t; want %+v, false", claim, got, isRenewed, c.want)
		}
	}
}

func TestAgentsGetAuthenticatedRequests(t *testing.T) {
	var issued int
	tokens := newSink(t, func(w http.ResponseWriter, _ *http.Request) {
		issued++
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"access_token":"t0ken-`+strings.Repeat("x", issued)+`","token_type":"Bearer","expires_in":3600}`)
	})
	now := time.Now()
	client := egress.New(egress.Policy{AllowPrivate: true})
	h := send.NewHTTPSender(send.Deps{Client: client, Now: time.Now, Authenticator: auth.New(auth.Deps{Client: client, Now: func() time.Time { return now }})})
	status := 0 // of the previous attempt
	authorization := func(a eventhook.Auth) (string, *send.Receiver, *eventhook.Delivery) {
		s := sendingOf(newSubscription("https://user.example/hook"), newEvent(), 1)
		s.Delivery.StatusCode = status
		s.to.AuthHeader, s.to.Auth = eventhook.Secret{}, a.Seal()
		to := h.To(s.to)
		request, failed := to.Compose(t.Context(), s.Delivery, 1)
		if request == nil {
			return failed.Error, to, s.Delivery
		}
		return request.Header.Get("Authorization"), to, s.Delivery
	}
	if got, _, _ := authorization(eventhook.Auth{Type: eventhook.AuthBasic, Username: "a", Password: "b"}); got != "Basic YTpi" {
		t.Errorf("basic: got %q", got)
	}
	if got, _, _ := authorization(eventhook.Auth{Type: eventhook.AuthAWS, AccessKeyID: "AKID", SecretAccessKey: "s", Region: "r", Service: "s3"}); !strings.HasPrefix(got, "AWS4-HMAC-SHA256 Credential=AKID/") {
		t.Errorf("aws: got %q", got)
	}
	token := eventhook.Auth{Type: eventhook.AuthOAuth2, TokenURL: tokens.URL, ClientID: "c", ClientSecret: "s3cret"}
	got, to, d := authorization(token)
	if got != "Bearer t0ken-x" {
		t.Fatalf("oauth2: got %q", got)
	}
	a, isRenewed := to.Complete(send.Reported{Delivery: d, Attempt: 1, Result: eventhook.Attempt{StatusCode: 401, Excerpt: "no t0ken-x"}})
	if strings.Contains(a.Excerpt, "t0ken-x") || !isRenewed {
		t.Errorf("the excerpt is %q, renewed: %t; want it without the token, which is renewed", a.Excerpt, isRenewed)
	}
	if got, _, _ := authorization(token); got != "Bearer t0ken-xx" {
		t.Errorf("after a 401: got %q, want a new token", got)
	}
	status = http.StatusUnauthorized
	for _, c := range []struct {
		claim string
		after time.Duration
		want  string
	}{{"a 401 at another instance, soon after the token", time.Second, "Bearer t0ken-xx"}, {"later", 10 * time.Second, "Bearer t0ken-xxx"}} {
		now = now.Add(c.after)
		if got, _, _ := authorization(token); got != c.want {
			t.Errorf("%s: got %q, want %q", c.claim, got, c.want)
		}
	}
}
