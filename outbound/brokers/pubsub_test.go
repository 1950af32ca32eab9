package brokers_test

import (
	"crypto/rsa"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/eventhook/eventhook"
)

func TestPubSub(t *testing.T) {
	testKind(t, kind{server: newPubSub(t), unknown: map[string]any{"topic": "nowhere"}, unknownClass: eventhook.ErrorRefused,
		wrong: map[string]any{"credentials": credentialsOf("first", rsaKeys()[1])}})
}

// Google's client library would refuse the key until it is resumed.
func TestPubSubPublishesWithAKeyAfterAnError(t *testing.T) {
	s := newPubSub(t)
	f := open(t, s.target(nil))
	s.change(func() { s.failure = status.Error(codes.Internal, "an error") })
	f.fails(eventhook.ErrorHTTP5xx)
	s.change(func() { s.failure = nil })
	f.sent(f.delivery("application/json", order))
	if m := next(t, s.messages); m.OrderingKey != "c-42" {
		t.Errorf("got the ordering key %q, want c-42", m.OrderingKey)
	}
}

func TestPubSubClassifiesAnswers(t *testing.T) {
	s := newPubSub(t)
	f := open(t, s.target(nil))
	for code, want := range map[codes.Code]eventhook.ErrorClass{
		codes.PermissionDenied: eventhook.ErrorAuth, codes.InvalidArgument: eventhook.ErrorRefused, codes.FailedPrecondition: eventhook.ErrorRefused,
		codes.ResourceExhausted: eventhook.ErrorHTTP5xx, codes.Aborted: eventhook.ErrorHTTP5xx, codes.Unavailable: eventhook.ErrorClosed,
	} {
		s.change(func() { s.failure = status.Error(code, "an error") })
		if a := f.send(f.delivery("application/json", order)); a.ErrorClass != want || a.Error == "" {
			t.Errorf("%s: got %q: %s; want %q", code, a.ErrorClass, a.Error, want)
		}
	}
}

func TestPubSubFailsWhenItsCredentialsExpireAndRecoversWithNewOnes(t *testing.T) {
	s := newPubSub(t)
	f := open(t, s.target(nil))
	f.sent(f.delivery("application/json", order))
	s.change(func() { s.later = 2 * time.Hour }) // the tokens are valid for an hour
	f.fails(eventhook.ErrorAuth)
	s.change(func() { s.later = 0 })
	f.sent(f.delivery("application/json", order))
	s.change(func() { s.keys = map[string]*rsa.PublicKey{"second": &rsaKeys()[1].PublicKey} })
	f.fails(eventhook.ErrorAuth)
	f.target = f.compile(s.target(map[string]any{"credentials": credentialsOf("second", rsaKeys()[1])}))
	f.sent(f.delivery("application/json", order))
}

func TestPubSubRefusesCredentialsThatAreNoKey(t *testing.T) {
	s := newPubSub(t)
	for _, text := range []string{secret, `{"type":"authorized_user","refresh_token":"` + secret + `"}`, `{"type":"service_account","client_email":"a@b","private_key":"` + secret + `"}`} {
		f := open(t, s.target(map[string]any{"credentials": text}))
		f.fails(eventhook.ErrorAuth)
	}
}

func TestPubSubThatNeverConfirms(t *testing.T) {
	s := newPubSub(t)
	s.change(func() { s.isMute = true })
	f := open(t, s.target(map[string]any{"timeout_seconds": 1}))
	f.fails(eventhook.ErrorTimeout)
	s.change(func() { s.isMute = false })
	f.sent(f.delivery("application/json", order))
}

func TestPubSubRefusesMessagesThatAreTooLarge(t *testing.T) {
	s := newPubSub(t)
	f := open(t, s.target(map[string]any{"body": "raw"}))
	if a := f.send(f.delivery("text/plain", strings.Repeat("x", 10_000_001))); a.ErrorClass != eventhook.ErrorRefused {
		t.Errorf("got %q: %s; want it refused", a.ErrorClass, a.Error)
	}
}

func TestPubSubChecksTheCertificate(t *testing.T) {
	s := newPubSub(t)
	s.stop()
	other, _ := selfSigned()
	s.serve(other)
	f := open(t, s.target(nil))
	f.fails(eventhook.ErrorTLS)
}
