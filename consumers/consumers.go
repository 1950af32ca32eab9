package consumers

import (
	"encoding/json"
	"strings"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/targets"
)

// kinds lists the kinds of brokers in the order of docs/broker-sources.md.
var kinds = targets.Table[Settings]{
	{Name: "nats", New: func() Settings { return new(NATS) }},
	{Name: "kafka", New: func() Settings { return new(Kafka) }},
	{Name: "amqp", New: func() Settings { return new(AMQP) }},
	{Name: "redis_stream", New: func() Settings { return new(RedisStream) }},
	{Name: "sqs", New: func() Settings { return new(SQS) }},
}

// Settings say where a source consumes messages: a pointer to a struct with tags as those of
// targets.Settings.
type Settings interface {
	targets.Checked
	// Server names the server for users, such as broker.example:9092. It has no credentials.
	Server() string
	// Place names what is consumed, such as a topic.
	Place() string
}

// Types returns the types of brokers in the order of the documentation.
func Types() []string { return kinds.Names() }

// NewSettings returns empty settings of a type, nil if the type is unknown.
func NewSettings(typ string) Settings {
	for _, k := range kinds {
		if k.Name == typ {
			return k.New()
		}
	}
	return nil
}

// Parse decodes the member consume of a source, as targets.Parse does with a target.
func Parse(raw json.RawMessage, secret func(member, text string) string) (eventhook.Target, eventhook.Faults) {
	t, faults := kinds.Parse(raw, secret)
	for i := range faults {
		if faults[i].Location == "" {
			faults[i].Message = `must be an object, such as {"type":"redis_stream","url":"rediss://redis.example","stream":"orders","group":"eventhook"}`
		}
	}
	return t, faults
}

// Format encodes the member consume of a source, as targets.Format does with a target.
func Format(t eventhook.Target, secret func(member, text string) string) (json.RawMessage, error) {
	return kinds.Format(t, secret)
}

// Open returns the settings with their secrets. It returns an error if Parse would report a fault, or
// if a secret is missing because the key that sealed it is not configured.
func Open(t eventhook.Target) (Settings, error) { return kinds.Open(t) }

// KeepSecrets replaces each secret that is written as [redacted] with the stored one, as
// targets.KeepSecrets does: a secret is never sent to another host. stored may be nil.
func KeepSecrets(updated eventhook.Target, stored *eventhook.Target) (eventhook.Target, eventhook.Faults) {
	var have []eventhook.Target
	if stored != nil {
		have = append(have, *stored)
	}
	kept, faults := kinds.KeepSecrets([]eventhook.Target{updated}, have)
	for i := range faults {
		faults[i].Location = strings.TrimPrefix(strings.TrimPrefix(faults[i].Location, "[0]"), ".")
	}
	return kept[0], faults
}
