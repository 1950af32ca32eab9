package brokers_test

import (
	"crypto/sha256"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/eventhook/eventhook"
)

func TestSQS(t *testing.T) {
	for name, hidesKey := range map[string]bool{"orders": true, "orders.fifo": false} {
		t.Run(name, func(t *testing.T) {
			s := newSQS(t, name)
			testKind(t, kind{server: s, drops: "tenantid", unknown: map[string]any{"queue_url": "http://" + s.address + "/123456789012/nowhere"}, unknownClass: eventhook.ErrorRefused,
				wrong: map[string]any{"secret_access_key": "another"}, hidesKey: hidesKey})
		})
	}
}

func TestSQSStoresARepetitionInAFIFOQueueOnce(t *testing.T) {
	s := newSQS(t, "orders.fifo")
	f := open(t, s.target(nil))
	d := f.delivery("application/json", order)
	if a := f.sent(d); !strings.Contains(a.Excerpt, "sequence number") {
		t.Errorf("got the receipt %q, want the sequence number", a.Excerpt)
	}
	f.sent(d)
	f.sent(f.delivery("application/json", order))
	if m := next(t, s.messages); m.MessageDeduplicationID != d.ID.String() {
		t.Errorf("got the deduplication id %s, want that of the delivery, %s", m.MessageDeduplicationID, d.ID)
	}
	if m := next(t, s.messages); m.MessageDeduplicationID == d.ID.String() {
		t.Error("the queue stored the repetition")
	}
}

func TestSQSGroups(t *testing.T) {
	s := newSQS(t, "orders.fifo")
	f := open(t, s.target(nil))
	hash := func(key string) string { return hexOf(sha256.Sum256([]byte(key))) }
	long := strings.Repeat("x", 129)
	for key, want := range map[string]string{"c-42": "c-42", "": "default", long[1:]: long[1:], long: hash(long), "two words": hash("two words"), "\u00e4": hash("\u00e4")} {
		f.sent(f.delivery("application/json", `{"customer":{"id":"`+key+`"}}`))
		if m := next(t, s.messages); m.MessageGroupID != want {
			t.Errorf("%q: got the group %q, want %q", key, m.MessageGroupID, want)
		}
	}
}

// Text that Amazon SQS takes is sent as it is.
func TestSQSEncodesDataThatIsNoText(t *testing.T) {
	s := newSQS(t, "orders")
	f := open(t, s.target(map[string]any{"body": "raw"}))
	for body, isEncoded := range map[string]bool{"hello\t\r\n\u00e4\U0001f600": false, "\xff": true, "a\x00b": true, "\x1f": true, "\ufffe": true, "\ufffd": false} {
		f.sent(f.delivery("text/plain", body))
		m := next(t, s.messages)
		if _, marked := m.MessageAttributes["ce-dataencoding"]; marked != isEncoded || !isEncoded && m.MessageBody != body {
			t.Errorf("%q: got %q, marked as encoded: %t; want %t", body, m.MessageBody, marked, isEncoded)
		}
	}
}

// A message in base64 with a key and a request id has 12 attributes; the service takes 10.
func TestSQSLeavesOutTheLastAttributes(t *testing.T) {
	s := newSQS(t, "orders")
	f := open(t, s.target(map[string]any{"body": "raw", "key_path": "header.content-type"}))
	f.sent(f.delivery("text/plain", "\xff"))
	m := next(t, s.messages)
	_, hasRequest := m.MessageAttributes["ce-requestid"]
	if _, hasTenant := m.MessageAttributes["ce-tenantid"]; hasRequest || hasTenant || len(m.MessageAttributes) != 10 || m.MessageAttributes["ce-eventhookhops"].StringValue != "1" {
		t.Errorf("got the attributes %v, want 10, without ce-requestid and ce-tenantid", m.MessageAttributes)
	}
}

func TestSQSReplacesForbiddenCharactersInAttributes(t *testing.T) {
	s := newSQS(t, "orders")
	f := open(t, s.target(nil))
	f.sent(f.delivery("application/json", `{"customer":{"id":"a\u0001b"}}`))
	if m := next(t, s.messages); m.MessageAttributes["ce-partitionkey"].StringValue != "a\ufffdb" {
		t.Errorf("got %q", m.MessageAttributes["ce-partitionkey"].StringValue)
	}
}

func TestSQSRefusesMessages(t *testing.T) {
	s := newSQS(t, "orders")
	f := open(t, s.target(map[string]any{"body": "raw"}))
	for claim, body := range map[string]string{"empty": "", "at most 1048576": strings.Repeat("x", 1<<20)} {
		if a := f.send(f.delivery("text/plain", body)); a.ErrorClass != eventhook.ErrorRefused || !strings.Contains(a.Error, claim) {
			t.Errorf("got %q: %s; want it refused: %s", a.ErrorClass, a.Error, claim)
		}
	}
	f.sent(f.delivery("text/plain", strings.Repeat("x", 1<<20-1000)))
}

func TestSQSClassifiesAnswers(t *testing.T) {
	s := newSQS(t, "orders")
	f := open(t, s.target(nil))
	for _, c := range []struct {
		status int
		code   string
		class  eventhook.ErrorClass
	}{
		{403, "AccessDenied", eventhook.ErrorAuth},
		{400, "ExpiredTokenException", eventhook.ErrorAuth},
		{403, "RequestThrottled", eventhook.ErrorHTTP5xx},
		{400, "ThrottlingException", eventhook.ErrorHTTP5xx},
		{503, "ServiceUnavailable", eventhook.ErrorHTTP5xx},
		{500, "InternalFailure", eventhook.ErrorHTTP5xx},
		{400, "InvalidParameterValue", eventhook.ErrorRefused},
	} {
		s.fail(&sqsError{c.status, c.code, "no"})
		before := s.requests.Load()
		if a := f.send(f.delivery("application/json", order)); a.ErrorClass != c.class || !strings.Contains(a.Error, c.code) {
			t.Errorf("%s: got %q: %s; want %q", c.code, a.ErrorClass, a.Error, c.class)
		}
		if n := s.requests.Load() - before; n != 1 {
			t.Errorf("%s: got %d requests, want one: the dispatcher retries", c.code, n)
		}
	}
	s.fail(nil)
	f.sent(f.delivery("application/json", order))
}

func TestSQSDescribesAnswersOfAnotherServer(t *testing.T) {
	for status, class := range map[int]eventhook.ErrorClass{200: eventhook.ErrorHTTP, 302: eventhook.ErrorHTTP, 404: eventhook.ErrorHTTP4xx, 502: eventhook.ErrorHTTP5xx} {
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, "<html>hello")
		}))
		f := open(t, newSQS(t, "orders").target(map[string]any{"queue_url": web.URL + "/1/orders"}))
		f.fails(class)
		web.Close()
	}
}

func TestSQSFailsWhenItsSessionExpiresAndRecoversWithANewOne(t *testing.T) {
	s := newSQS(t, "orders")
	s.expectSession("first-" + secret)
	f := open(t, s.target(map[string]any{"session_token": "first-" + secret}))
	f.sent(f.delivery("application/json", order))
	s.expectSession("second-" + secret)
	f.fails(eventhook.ErrorAuth)
	f.target = f.compile(s.target(map[string]any{"session_token": "second-" + secret}))
	f.sent(f.delivery("application/json", order))
	f.target = f.compile(s.target(map[string]any{"session_token": "second-" + secret, "access_key_id": "AKIDOTHER"}))
	f.fails(eventhook.ErrorAuth)
	f.target = f.compile(s.target(map[string]any{"session_token": "second-" + secret, "region": "us-east-1"}))
	f.fails(eventhook.ErrorAuth)
}
