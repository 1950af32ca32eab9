package console

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"github.com/eventhook/eventhook/client"
)

// brokerChoices are the brokers whose messages a source can consume, in the order of the page.
var brokerChoices = []choiceOfSender{
	{"nats", "NATS JetStream", "A stream, through a durable consumer."},
	{"kafka", "Kafka", "A topic, as a member of a consumer group."},
	{"amqp", "AMQP (RabbitMQ)", "A queue of RabbitMQ, or of another server for AMQP 0-9-1."},
	{"redis_stream", "Redis stream", "A stream, as a consumer of a group."},
	{"sqs", "Amazon SQS", "A queue."},
}

// consumePlaces are the fields that say what is consumed at a broker, by its type.
var consumePlaces = map[client.ConsumeType][]settingField{
	"nats": {{Member: "stream", Label: "Stream", Required: true, Placeholder: "ORDERS", Help: "The stream must exist."},
		{Member: "consumer", Label: "Durable consumer", Required: true, Placeholder: "eventhook",
			Help: "It keeps what was consumed. The gateway creates it if it does not exist. An existing one must be a pull consumer with explicit acknowledgements."},
		{Member: "subject", Label: "Subjects", Placeholder: "orders.>", Help: "Empty: all of the stream. The field counts when the gateway creates the consumer."},
		startField("Where a consumer begins that the gateway creates.")},
	"kafka": {{Member: "topic", Label: "Topic", Required: true, Placeholder: "orders", Help: "The topic must exist."},
		{Member: "group", Label: "Consumer group", Required: true, Placeholder: "eventhook", Help: "Its offsets tell what was consumed. Use a group of its own for each source."},
		startField("Where a group without offsets begins.")},
	"amqp": {{Member: "queue", Label: "Queue", Required: true, Placeholder: "orders",
		Help: "The queue must exist. Refused messages go to its dead-letter exchange; without one, the server drops them."},
		{Member: "prefetch", Label: "Messages without an acknowledgement", Placeholder: "100", IsNumber: true, Help: "The server sends at most so many."}},
	"redis_stream": {{Member: "stream", Label: "Stream", Required: true, Placeholder: "orders", Help: "The key of the stream, which must exist."},
		{Member: "group", Label: "Consumer group", Required: true, Placeholder: "eventhook", Help: "It keeps what was consumed. The gateway creates it if it does not exist."},
		startField("Where a group begins that the gateway creates.")},
	"sqs": {{Member: "visibility_timeout_seconds", Label: "Visibility timeout in seconds", Placeholder: "that of the queue", IsNumber: true,
		Help: "How long a received message is hidden from other consumers."}},
}

func startField(help string) settingField {
	return settingField{Member: "start_at", Label: "Begin at", Options: []string{"oldest", "newest"}, Help: help + " The default is oldest."}
}

// consumeFields returns the fields of the settings of a source that consumes messages; none for a type that the
// console does not know.
func consumeFields(broker client.ConsumeType) []settingField {
	place, ok := consumePlaces[broker]
	if !ok {
		return nil
	}
	b := brokers[string(broker)]
	return slices.Concat(b.address, place, b.login)
}

// consumeName returns the name of the field of a form for a member of consume.
func consumeName(member string) string { return "consume." + member }

// consumeNames returns the names of the fields of consume in a form, and those of its secrets.
func consumeNames(fields []settingField) (names, secrets []string) {
	for _, x := range fields {
		names = append(names, consumeName(x.Member))
		if x.IsSecret {
			secrets = append(secrets, consumeName(x.Member))
		}
	}
	return names, secrets
}

// putConsume writes the member consume of a source into the fields of a form. The API shows each secret as
// [redacted], and keeps a secret that is sent so.
func putConsume(v url.Values, c *client.Consume) {
	if c == nil {
		return
	}
	raw, _ := json.Marshal(c) // has texts, numbers and a boolean only
	object, _ := decodeObject(string(raw))
	putSettings(v, "consume", consumeFields(c.Type), object)
}

// consume stores the member consume of a new source.
func (m members) consume(broker client.ConsumeType) {
	m.set(consumeName("type"), broker)
	for _, x := range consumeFields(broker) {
		if value := x.value(m.form, consumeName(x.Member)); value != nil {
			m.set(consumeName(x.Member), value)
		}
	}
}

// patchConsume stores the members of consume that differ from the stored ones; an empty field is null, which
// deletes its member. Without a change the patch has no member consume.
func (m members) patchConsume(stored *client.Consume) {
	was := url.Values{}
	putConsume(was, stored)
	for _, x := range consumeFields(stored.Type) {
		name := consumeName(x.Member)
		if strings.TrimSpace(unixText(m.form.Get(name))) != strings.TrimSpace(unixText(was.Get(name))) {
			m.set(name, x.value(m.form, name))
		}
	}
}

// keepConsume gives fields of consume their stored values: those that the form lacks, such as a form of an earlier
// release.
func (d *settings) keepConsume(stored url.Values) {
	names, _ := consumeNames(d.Fields())
	for _, name := range names {
		if !d.Form.Values.Has(name) {
			d.Form.Values[name] = stored[name]
		}
	}
}

// hideConsume hides the secrets of the broker that were typed. Until they are typed again, the stored ones are kept.
func (d *settings) hideConsume() {
	was := url.Values{}
	putConsume(was, d.Source.Consume)
	_, secrets := consumeNames(d.Fields())
	for _, name := range d.Form.hide(secrets...) {
		d.Form.Values[name] = was[name]
	}
}

// factsOfBroker returns what a source consumes.
func factsOfBroker(c *client.Consume) (facts []fact) {
	if c == nil {
		return nil
	}
	v := url.Values{}
	putConsume(v, c)
	for _, x := range slices.Concat(brokers[string(c.Type)].address, consumePlaces[c.Type]) {
		if text := v.Get(consumeName(x.Member)); text != "" {
			facts = append(facts, fact{x.Label, text})
		}
	}
	return facts
}
