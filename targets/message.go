package targets

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/effects"
	"github.com/eventhook/eventhook/internal/payload"
)

// MessageSettings are the settings of every kind that sends a message to a broker.
type MessageSettings struct {
	KeyPath        string       `json:"key_path,omitempty" example:"body.customer.id" doc:"The path in the event to the key of the message. Brokers keep the order of messages with one key. An event without a value at the path has no key."`
	Body           string       `json:"body,omitempty" enum:"input,raw" doc:"The data of the message. input, the default, sends the event as JSON or the output of the transform. raw sends the received bytes unchanged."`
	TimeoutSeconds int          `json:"timeout_seconds,omitempty" minimum:"0" maximum:"60" doc:"How long to wait for the acknowledgement of the broker, in seconds. 0 means the default, 10."`
	Retry          *TargetRetry `json:"retry,omitempty" doc:"When a failed message is sent again. The default is the retry policy of the source. terminal_statuses do not apply."`
}

// Check reports every fault by its member.
func (s MessageSettings) Check() (f eventhook.Faults) {
	checkPath(&f, "key_path", s.KeyPath)
	checkOneOf(&f, "body", s.Body, bodyInput, bodyRaw)
	checkRange(&f, "timeout_seconds", s.TimeoutSeconds, 0, maxTimeout)
	f.Merge("retry", s.Retry.Policy().Validate())
	return f
}

// Broker is the part of a target's settings that only its broker's client reads: a *NATS, *Kafka,
// *AMQP, *RedisStream, *SQS or *PubSub.
type Broker interface {
	Settings
	// Server names the server for users, such as broker.example:9092. It has no credentials.
	Server() string
	// Place names where messages go, such as the subject of a NATS message.
	Place() string
	// connection returns the settings that connections depend on, with credentials.
	connection() any
}

// Message is a compiled target that sends messages to a broker. It is immutable and safe for
// concurrent use.
type Message struct {
	broker    Broker
	kind      string
	key       payload.Path
	partition payload.Path // of Kafka; zero without one
	raw       bool
	timeout   time.Duration
	retry     *TargetRetry
}

// compile returns the effector of a kind of broker.
func (s MessageSettings) compile(kind string, b Broker) (Effector, error) {
	key, err := optionalPath(s.KeyPath)
	if err != nil {
		return nil, err
	}
	return &Message{broker: b, kind: kind, key: key, raw: s.Body == bodyRaw, retry: s.Retry,
		timeout: time.Duration(cmp.Or(s.TimeoutSeconds, defaultTimeout)) * time.Second}, nil
}

// Broker returns the settings for the client. The caller must not modify them.
func (m *Message) Broker() Broker { return m.broker }

// Connection identifies a connection: two targets whose Connection is equal can share one. It is a
// hash, and reveals no credentials.
func (m *Message) Connection() string {
	raw, err := json.Marshal(m.broker.connection())
	if err != nil {
		panic(err) // a struct of texts
	}
	return fmt.Sprintf("%s %x", m.kind, sha256.Sum256(raw))
}

// Timeout is how long to wait for the acknowledgement of a message.
func (m *Message) Timeout() time.Duration { return m.timeout }

// Retry returns the target's retry policy, and false if the source's policy applies.
func (m *Message) Retry() (eventhook.RetryPolicy, bool) { return m.retry.Policy(), m.retry != nil }

// Effect returns a request. Its body is stored only if a transform produced it; otherwise the data
// of the message is composed from the event at each attempt.
func (m *Message) Effect(e *eventhook.Event, v *payload.View, _ time.Time) (effects.Effect, error) {
	q := &effects.Request{}
	if output := v.Transformed(); output != nil && !m.raw {
		q.Body = output
	}
	q.Preview = func() json.RawMessage { return m.preview(e, q.Body) }
	return effects.Effect{Request: q}, nil
}

// Attribute is a context attribute of a CloudEvent.
type Attribute struct{ Name, Value string }

// CloudEvent is a message in the binary content mode of CloudEvents 1.0: attributes beside the data.
// It is the same at every attempt.
type CloudEvent struct {
	ID          string // of the event; with the source it identifies the message
	DeliveryID  string
	Key         string      // "" without one
	Partition   string      // of Kafka: the value that should be the number of a partition; "" without one
	ContentType string      // of the data: the attribute datacontenttype
	Attributes  []Attribute // without datacontenttype; names have lower-case letters and digits
	Data        []byte
}

// Compose returns the message of a delivery with its event.
func (m *Message) Compose(d *eventhook.Delivery) CloudEvent {
	c := m.compose(d.Event, d.Body)
	c.DeliveryID = d.ID.String()
	return c
}

// maxAttributes is the number of attributes that compose adds at most.
const maxAttributes = 10

func (m *Message) compose(e *eventhook.Event, stored []byte) CloudEvent {
	v := payload.New(nil, payload.HeaderBlock(e.Headers), e.ContentType, e.Body)
	c := CloudEvent{ID: e.ID.String(), ContentType: "application/json", Data: stored, Attributes: make([]Attribute, 0, maxAttributes)}
	switch {
	case m.raw:
		c.ContentType, c.Data = e.ContentType, e.Body
	case stored == nil:
		c.Data = v.Render()
	}
	if !m.key.IsZero() {
		text, _ := v.Text(m.key)
		c.Key = eventhook.NormalizeKey(text) // which bounds it
	}
	if !m.partition.IsZero() {
		c.Partition, _ = v.Text(m.partition)
	}
	add := func(name, value string) {
		if value != "" {
			c.Attributes = append(c.Attributes, Attribute{name, value})
		}
	}
	tenant, source := e.TenantID.String(), e.SourceSlug
	if source == "" {
		source = "urn:uuid:" + tenant
	}
	add("specversion", "1.0")
	add("id", c.ID)
	add("source", source)
	add("type", e.EventType)
	add("time", e.ID.Time().UTC().Format("2006-01-02T15:04:05.000Z"))
	add("partitionkey", c.Key)                                                     // of the extension "partitioning"
	add("traceparent", eventhook.Traceparent(e.Trace(), e.Span(), e.TraceFlags())) // of the extension "distributed tracing"
	add(eventhook.HopsAttribute, strconv.Itoa(e.Hops()+1))
	add("requestid", e.RequestID)
	add("tenantid", tenant)
	return c
}

// messagePreview is the preview of a message.
type messagePreview struct {
	Server     string            `json:"server"`
	Place      string            `json:"place"`
	Key        string            `json:"key,omitempty"`
	Partition  string            `json:"partition,omitempty"`
	Attributes map[string]string `json:"attributes"`
	Data       json.RawMessage   `json:"data,omitempty"`
	DataSize   int               `json:"data_size"`
}

// preview encodes a message without credentials.
func (m *Message) preview(e *eventhook.Event, stored []byte) json.RawMessage {
	c := m.compose(e, stored)
	p := messagePreview{Server: m.broker.Server(), Place: m.broker.Place(), Key: c.Key, Partition: c.Partition,
		Attributes: map[string]string{"datacontenttype": c.ContentType}, DataSize: len(c.Data)}
	for _, a := range c.Attributes {
		p.Attributes[a.Name] = a.Value
	}
	if len(c.Data) <= maxPreviewBody && !m.raw {
		p.Data = c.Data
	}
	raw, err := encode(p)
	if err != nil {
		return json.RawMessage("null")
	}
	return raw
}

// withKey replaces {key} in a place such as orders.{key}. It returns the place unchanged if it has no
// {key}.
func withKey(place, key string) string { return strings.ReplaceAll(place, "{key}", key) }
