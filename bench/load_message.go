package main

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/eventhook/eventhook/ingest"
)

// body is 1 KB of JSON, like the webhook of a provider.
var body = func() []byte {
	const size = 1024
	b := []byte(`{"ref":"refs/heads/main","repository":{"full_name":"acme/shop"},"note":"`)
	b = append(b, bytes.Repeat([]byte("lorem ipsum "), size/12)...)[:size-2]
	return append(b, `"}`...)
}()

// serial makes every delivery id of a run unique.
var serial atomic.Uint64

const idDigits = 16

// requestSpec describes requests. The paths are used in turn and have the same length.
type requestSpec struct {
	address string
	paths   []string
	// If eventType is set, the requests publish events of this type with key instead
	// of sending webhooks.
	eventType, key string
	timestamped    bool   // each body has the time of sending, for a sink
	body           []byte // of each request; nil means 1 KB
	// If customers is set, each event has the member "customer": one of as many customers of
	// the connection, which sends the events of each of these in the order of their ids.
	customers int
	scope     string // of each event; none if empty
}

// benchPath is the path of the bench's source.
var benchPath = ingest.Path(benchTenant, benchSource)

// message is a signed GitHub push or a request to publish an event. The parts that
// differ between requests are overwritten before each one, so that sending costs
// little.
type message struct {
	raw          []byte
	pathAt, idAt int
	// Offsets in a timestamped message: the time of sending, the body, and the
	// signature of the body, 0 if there is none.
	stampAt, bodyAt, signatureAt int
	answer                       string // first bytes of a successful response
	// In an event with a customer: its offset, and the number of the first customer of the
	// connection.
	customerAt, firstCustomer int
}

const method = "POST "

// stamped is the first member of a timestamped body: nanoseconds since 1970, which
// have the same number of digits until 2286.
const stamped, unstamped = `{"sent_at":1000000000000000000,`, `{`

func (t requestSpec) message() message {
	if t.eventType != "" {
		return t.publishMessage()
	}
	body := t.stamped()
	head := fmt.Sprintf(method+"%s HTTP/1.1\r\nHost: %s\r\nUser-Agent: GitHub-Hookshot/bench\r\nAccept: */*\r\nContent-Type: application/json\r\n"+
		"X-GitHub-Event: push\r\nContent-Length: %d\r\nX-Hub-Signature-256: sha256=", t.paths[0], t.address, len(body))
	m := message{pathAt: len(method), answer: "HTTP/1.1 200"}
	m.raw = hex.AppendEncode([]byte(head), sign(body))
	m.raw = append(m.raw, "\r\nX-GitHub-Delivery: "...)
	m.idAt = len(m.raw)
	m.raw = append(append(m.raw, zeros+"\r\n\r\n"...), body...)
	if t.timestamped {
		m.stamp(len(body))
		m.signatureAt = len(head)
	}
	return m
}

var zeros = strings.Repeat("0", idDigits)

// publishMessage returns a request to publish an event whose data is the body with a
// unique id.
func (t requestSpec) publishMessage() message {
	data := t.stamped()
	const id, customer = `,"id":"`, `,"customer":"c`
	if t.customers > 0 {
		data = append(data[:len(data)-1:len(data)-1], customer+zeros+`"}`...)
	}
	data = append(data[:len(data)-1:len(data)-1], id+zeros+`"}`...)
	scope := ""
	if t.scope != "" {
		scope = fmt.Sprintf(`"scope":%q,`, t.scope)
	}
	event := fmt.Appendf(nil, `{"event_type":%q,%s"data":%s}`, t.eventType, scope, data)
	m := message{pathAt: len(method), answer: "HTTP/1.1 202"}
	m.raw = fmt.Appendf(nil, method+"%s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		t.paths[0], t.address, t.key, len(event), event)
	m.idAt = bytes.LastIndex(m.raw, []byte(id)) + len(id)
	if t.customers > 0 {
		m.customerAt = bytes.LastIndex(m.raw, []byte(customer)) + len(customer)
		m.firstCustomer = int(serial.Add(1)) * t.customers
	}
	if t.timestamped {
		m.stamp(len(event))
	}
	return m
}

// stamped returns a copy of the body, with room for the time of sending in a
// timestamped request.
func (t requestSpec) stamped() []byte {
	body := body
	if t.body != nil {
		body = t.body
	}
	if !t.timestamped {
		return slices.Clone(body)
	}
	return append([]byte(stamped), bytes.TrimPrefix(body, []byte(unstamped))...)
}

// stamp finds the offsets of a timestamped message. length is the length of its body.
func (m *message) stamp(length int) {
	m.bodyAt = len(m.raw) - length
	m.stampAt = m.bodyAt + bytes.Index(m.raw[m.bodyAt:], []byte(stamped)) + len(`{"sent_at":`)
}

func sign(body []byte) []byte {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	return mac.Sum(nil)
}

// next turns the message into the next request, with a new id and path.
func (m message) next(t requestSpec) error {
	n := serial.Add(1)
	path := t.paths[n%uint64(len(t.paths))]
	if id := fmt.Appendf(m.raw[m.idAt:m.idAt], "%0*x", idDigits, n); len(id) != idDigits || len(path) != len(t.paths[0]) {
		return fmt.Errorf("id %q or path %q has another length", id, path)
	}
	copy(m.raw[m.pathAt:], path)
	if m.customerAt > 0 {
		copy(m.raw[m.customerAt:], fmt.Sprintf("%0*x", idDigits, m.firstCustomer+int(n)%t.customers))
	}
	if m.stampAt > 0 {
		strconv.AppendInt(m.raw[m.stampAt:m.stampAt], time.Now().UnixNano(), 10)
	}
	if m.signatureAt > 0 {
		hex.AppendEncode(m.raw[m.signatureAt:m.signatureAt], sign(m.raw[m.bodyAt:]))
	}
	return nil
}
