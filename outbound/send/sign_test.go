package send_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/verify"
)

// sent sends an event to the subscription at a time and returns the request that the receiver got.
func sent(t *testing.T, s *eventhook.Subscription, e *eventhook.Event, at time.Time) received {
	t.Helper()
	receiver := newSink(t, answer(204, ""))
	s.URL = eventhook.NewSecret(receiver.URL + "/hook")
	if a := newSender(func() time.Time { return at }).Send(t.Context(), sendingOf(s, e, 1)); !a.Succeeded() {
		t.Fatalf("got %+v, want a success", a)
	}
	return receiver.last(t)
}

// verifies reports whether the reference library accepts a request.
func verifies(t *testing.T, r received, secret string) bool {
	t.Helper()
	reference, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	return reference.Verify(r.body, r.header) == nil
}

func TestReferenceLibraryVerifiesSignatures(t *testing.T) {
	for _, data := range []string{unusualJSON, "[]", "null", " 1 ", `"ünï"`, "\xff"} {
		e := newEvent()
		e.Body = []byte(data)
		if data == "\xff" {
			e.Envelope = nil
		}
		r := sent(t, newSubscription(""), e, time.Now())
		if !verifies(t, r, currentSecret) {
			t.Errorf("%q: the signature is rejected", data)
		}
		if verifies(t, r, olderSecret) {
			t.Errorf("%q: another secret is accepted", data)
		}
		r.body[len(r.body)-2] ^= 1
		if verifies(t, r, currentSecret) {
			t.Errorf("%q: a changed body is accepted", data)
		}
	}
	if verifies(t, sent(t, newSubscription(""), newEvent(), time.Now().Add(-time.Hour)), currentSecret) {
		t.Error("a request of an hour ago is accepted, want the timestamp of the attempt")
	}
}

func TestBothSecretsSignDuringARotation(t *testing.T) {
	now := time.Now()
	for _, c := range []struct {
		claim string
		until time.Time
		count int
	}{{"within the grace", now.Add(time.Second), 2}, {"at its end", now, 1}, {"after it", now.Add(-time.Hour), 1}} {
		s := newSubscription("")
		s.Signing = append(s.Signing, eventhook.SigningSecret{Secret: eventhook.NewSecret(olderSecret), ExpiresAt: &c.until})
		r := sent(t, s, newEvent(), now)
		if !verifies(t, r, currentSecret) || verifies(t, r, olderSecret) != (c.count == 2) {
			t.Errorf("%s: got %q", c.claim, r.header.Get("Webhook-Signature"))
		}
		if got := strings.Count(r.header.Get("Webhook-Signature"), "v1,"); got != c.count {
			t.Errorf("%s: got %d signatures, want %d", c.claim, got, c.count)
		}
		if want := plainSignature(r.body, currentSecret); r.header.Get("X-Eventhook-Signature") != want {
			t.Errorf("%s: got the plain signature %s, want the signature of the current secret", c.claim, r.header.Get("X-Eventhook-Signature"))
		}
	}
}

// plainSignature returns the expected value of X-Eventhook-Signature.
func plainSignature(body []byte, secret string) string {
	h := hmac.New(sha256.New, []byte(secret))
	h.Write(body)
	return "sha256=" + hex.EncodeToString(h.Sum(nil))
}

// A secret without the prefix whsec_ is the key itself, even if it looks like base64.
func TestPlainTextSecret(t *testing.T) {
	for _, text := range []string{"correct-horse-battery", "correcthorsebattery8"} {
		s := newSubscription("")
		s.Signing[0].Secret = eventhook.NewSecret(text)
		r := sent(t, s, newEvent(), time.Now())
		reference, _ := standardwebhooks.NewWebhookRaw([]byte(text))
		if err := reference.Verify(r.body, r.header); err != nil {
			t.Errorf("%q: %v", text, err)
		}
		if r.header.Get("X-Eventhook-Signature") != plainSignature(r.body, text) {
			t.Errorf("%q: the value of X-Eventhook-Signature is wrong", text)
		}
	}
}

// The reference library does not support v1a, so package verify verifies it.
func TestEd25519(t *testing.T) {
	seed := eventhook.NewEd25519Seed()
	for _, c := range []struct {
		claim      string
		signatures []string
		v1, v1a    bool
	}{
		{"by default", nil, true, false},
		{"both", []string{"v1", "v1a"}, true, true},
		{"ed25519 only", []string{"v1a"}, false, true},
	} {
		s := newSubscription("")
		s.Signatures, s.Ed25519Seed = c.signatures, seed
		r := sent(t, s, newEvent(), time.Now())
		for _, way := range []struct {
			name   string
			config verify.Config
			want   bool
		}{
			{"v1", verify.Config{Type: "standard_webhooks", Secrets: []string{currentSecret}}, c.v1},
			{"v1a", verify.Config{Type: "standard_webhooks", PublicKeys: []string{eventhook.Ed25519PublicKey(seed)}}, c.v1a},
		} {
			if got := verifyWith(t, way.config, r); got != way.want {
				t.Errorf("%s, %s: verified %t, want %t", c.claim, way.name, got, way.want)
			}
		}
		if verifies(t, r, currentSecret) != c.v1 {
			t.Errorf("%s: the reference library rejects the request", c.claim)
		}
	}
}

func verifyWith(t *testing.T, c verify.Config, r received) bool {
	t.Helper()
	v, err := verify.New(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	return v.Verify(t.Context(), &verify.Request{Method: r.method, Header: r.header, Body: r.body, At: time.Now()}) == nil
}

// Concurrent attempts for one subscription have independent signatures.
func TestConcurrentSigning(t *testing.T) {
	s := newSubscription("https://hooks.example/")
	s.Signing = append(s.Signing, eventhook.SigningSecret{Secret: eventhook.NewSecret(olderSecret)})
	sender := newSenderOver(clientFunc(func(_ context.Context, r *http.Request, _ int) (int, http.Header, []byte, error) {
		body, err := io.ReadAll(r.Body)
		if got := (received{header: r.Header, body: body}); err != nil || !verifies(t, got, currentSecret) || !verifies(t, got, olderSecret) ||
			r.Header.Get("X-Eventhook-Signature") != plainSignature(body, currentSecret) {
			t.Errorf("%v: %v", err, r.Header)
		}
		return 200, nil, nil, nil
	}), "", time.Now)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 50 {
				sender.Send(t.Context(), sendingOf(s, newEvent(), 1))
			}
		})
	}
	all.Wait()
}

// BenchmarkCompose measures the cost of composing a request with 1 KB of data.
func BenchmarkCompose(b *testing.B) {
	for name, signatures := range map[string][]string{"hmac": {"v1"}, "ed25519": {"v1", "v1a"}} {
		b.Run(name, func(b *testing.B) {
			s, e := newSubscription("https://hooks.example/in"), newEvent()
			s.Signatures, s.Ed25519Seed = signatures, eventhook.NewEd25519Seed()
			e.Body = []byte(`{"text":"` + strings.Repeat("x", 1000) + `"}`)
			sender := newSenderOver(clientFunc(func(context.Context, *http.Request, int) (int, http.Header, []byte, error) {
				return 200, nil, nil, nil
			}), "eventhook/1", time.Now)
			sending := sendingOf(s, e, 1)
			b.ReportAllocs()
			for b.Loop() {
				if a := sender.Send(b.Context(), sending); !a.Succeeded() {
					b.Fatal(a)
				}
			}
		})
	}
}
