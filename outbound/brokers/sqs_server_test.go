package brokers_test

import (
	"crypto/hmac"
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"unicode/utf8"
)

// sqsServer imitates Amazon SQS over HTTP, since no server of it can be had. It is written from the API reference, and recomputes the signature of each request from the
// documentation of signatures. It knows neither the limits of AWS on the clock nor permissions.
type sqsServer struct {
	t        testing.TB
	queue    string // its name
	address  string
	end      func()
	messages chan sqsMessage

	requests atomic.Int32

	mu      sync.Mutex
	arrived chan struct{} // closed when a message can be received
	stored  []*sqsStored  // messages that were not deleted
	count   int           // messages that were stored
	failure *sqsError     // the answer to every request; nil: none
	seen    map[string]bool
	token   string // of the session that is valid; "" for none
}

// sqsMessage is the body of a request.
type sqsMessage struct {
	QueueURL               string `json:"QueueUrl"`
	MessageBody            string
	MessageGroupID         string `json:"MessageGroupId"`
	MessageDeduplicationID string `json:"MessageDeduplicationId"`
	MessageAttributes      map[string]struct{ DataType, StringValue string }
}

type sqsError struct {
	status        int
	code, message string
}

const sqsKeyID, sqsRegion = "AKIDEXAMPLE", "eu-west-1"

func newSQS(t testing.TB, queue string) *sqsServer {
	t.Helper()
	s := &sqsServer{t: t, queue: queue, address: "127.0.0.1:0", messages: make(chan sqsMessage, 100), seen: map[string]bool{}, arrived: make(chan struct{})}
	s.start()
	t.Cleanup(s.stop)
	return s
}

func (s *sqsServer) start() {
	l := must(net.Listen("tcp", s.address))
	s.address = l.Addr().String()
	server := &http.Server{Handler: s}
	go func() { _ = server.Serve(l) }()
	s.expire()
	s.end = func() {
		_ = server.Close()
		_ = l.Close() // the server may not have begun
	}
}

func (s *sqsServer) stop() { s.end() }

func (s *sqsServer) target(members map[string]any) string {
	return targetJSON(map[string]any{"type": "sqs", "queue_url": s.url(), "region": sqsRegion,
		"access_key_id": sqsKeyID, "secret_access_key": secret, "key_path": "body.customer.id"}, members)
}

func (s *sqsServer) url() string { return "http://" + s.address + "/123456789012/" + s.queue }

// fail makes the server answer with an error from now on; nil ends it.
func (s *sqsServer) fail(e *sqsError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failure = e
}

// expectSession sets the session token that is valid.
func (s *sqsServer) expectSession(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.token = token
}

func (s *sqsServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.requests.Add(1)
	body, _ := io.ReadAll(r.Body)
	var m sqsMessage
	if e := s.check(r, body, &m); e != nil {
		w.Header().Set("x-amzn-query-error", e.code+";Sender")
		w.WriteHeader(e.status)
		_ = json.NewEncoder(w).Encode(map[string]string{"__type": "com.amazonaws.sqs#" + e.code, "message": e.message})
		return
	}
	if operation := r.Header.Get("X-Amz-Target"); operation != "AmazonSQS.SendMessage" {
		s.consume(w, r, operation, body)
		return
	}
	s.mu.Lock()
	isNew := m.MessageDeduplicationID == "" || !s.seen[m.MessageDeduplicationID]
	s.seen[m.MessageDeduplicationID] = true
	s.mu.Unlock()
	if isNew {
		s.messages <- m
		s.store(m)
	}
	answer := map[string]string{"MessageId": "m-1", "MD5OfMessageBody": md5Of(m.MessageBody)}
	if m.MessageGroupID != "" {
		answer["SequenceNumber"] = "18870000000000000000"
	}
	_ = json.NewEncoder(w).Encode(answer)
}

func md5Of(text string) string {
	sum := md5.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}

// check returns the error of a request, and decodes it.
func (s *sqsServer) check(r *http.Request, body []byte, m *sqsMessage) *sqsError {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch e := s.checkSignature(r, body); {
	case e != nil:
		return e
	case s.failure != nil:
		return s.failure
	case json.Unmarshal(body, m) != nil:
		return &sqsError{400, "InvalidAction", "the operation is unknown"}
	case m.QueueURL != s.url():
		return &sqsError{400, "AWS.SimpleQueueService.NonExistentQueue", "The specified queue does not exist."}
	case r.Header.Get("X-Amz-Target") != "AmazonSQS.SendMessage":
		return nil
	}
	return s.checkMessage(m)
}

// checkMessage knows the limits of messages.
func (s *sqsServer) checkMessage(m *sqsMessage) *sqsError {
	size, texts := len(m.MessageBody), []string{m.MessageBody}
	for name, a := range m.MessageAttributes {
		size += len(name) + len(a.DataType) + len(a.StringValue)
		texts = append(texts, a.StringValue)
	}
	isFIFO := strings.HasSuffix(s.queue, ".fifo")
	switch {
	case len(m.MessageAttributes) > 10:
		return &sqsError{400, "InvalidParameterValue", "Number of message attributes [11] exceeds the allowed maximum [10]."}
	case size > 1<<20:
		return &sqsError{400, "InvalidParameterValue", "One or more parameters are invalid. Reason: Message must be shorter than 1048576 bytes."}
	case isFIFO != (m.MessageGroupID != "") || isFIFO != (m.MessageDeduplicationID != "") || len(m.MessageGroupID) > 128:
		return &sqsError{400, "InvalidParameterValue", "Value for parameter MessageGroupId is invalid."}
	}
	for _, text := range texts {
		if text == "" || !utf8.ValidString(text) || strings.ContainsAny(text, "\x00\x01\x0b\x1f\ufffe\uffff") {
			return &sqsError{400, "InvalidMessageContents", "Invalid characters found."}
		}
	}
	return nil
}

// checkSignature recomputes the signature of a request, as "Create a signed AWS API request" in the IAM
// User Guide describes. The path of every request is /.
func (s *sqsServer) checkSignature(r *http.Request, body []byte) *sqsError {
	var id, scope, names, signature string
	authorization := strings.NewReplacer(",", "", "/", " ").Replace(r.Header.Get("Authorization"))
	var date, region, service, end string
	_, _ = fmt.Sscanf(authorization, "AWS4-HMAC-SHA256 Credential=%s %s %s %s %s SignedHeaders=%s Signature=%s", &id, &date, &region, &service, &end, &names, &signature)
	scope = strings.Join([]string{date, region, service, end}, "/")
	switch {
	case id != sqsKeyID:
		return &sqsError{403, "InvalidClientTokenId", "The security token included in the request is invalid."}
	case s.token != r.Header.Get("X-Amz-Security-Token"):
		return &sqsError{403, "ExpiredToken", "The security token " + r.Header.Get("X-Amz-Security-Token") + " included in the request is expired"}
	case region != sqsRegion || service != "sqs" || signature != sqsSignature(r, body, scope, names):
		return &sqsError{403, "SignatureDoesNotMatch", "The request signature we calculated does not match the signature you provided."}
	}
	return nil
}

func sqsSignature(r *http.Request, body []byte, scope, names string) string {
	canonical := r.Method + "\n" + r.URL.EscapedPath() + "\n" + r.URL.RawQuery + "\n"
	for name := range strings.SplitSeq(names, ";") {
		value := r.Header.Get(name)
		switch name {
		case "host":
			value = r.Host
		case "content-length":
			value = fmt.Sprint(r.ContentLength)
		}
		canonical += name + ":" + strings.TrimSpace(value) + "\n"
	}
	canonical += "\n" + names + "\n" + hexOf(sha256.Sum256(body))
	text := strings.Join([]string{"AWS4-HMAC-SHA256", r.Header.Get("X-Amz-Date"), scope, hexOf(sha256.Sum256([]byte(canonical)))}, "\n")
	key := []byte("AWS4" + secret)
	for step := range strings.SplitSeq(scope, "/") {
		key = hmacOf(key, step)
	}
	return hex.EncodeToString(hmacOf(key, text))
}

func hexOf(sum [sha256.Size]byte) string { return hex.EncodeToString(sum[:]) }

func hmacOf(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

func (s *sqsServer) received(t *testing.T) received {
	t.Helper()
	m := next(t, s.messages)
	headers := map[string]string{}
	for name, a := range m.MessageAttributes {
		headers[name] = a.StringValue
	}
	got := received{Key: m.MessageGroupID, ContentType: headers["Content-Type"], Attributes: cloudAttributes(headers, "ce-"), Data: m.MessageBody}
	if got.Attributes["dataencoding"] == "base64" {
		delete(got.Attributes, "dataencoding")
		got.Data = string(must(base64.StdEncoding.DecodeString(m.MessageBody)))
	}
	return got
}
