// Package targets compiles targets. A compiled target returns the effects.Effect of an event, and
// the store writes the effect in the transaction that stores or settles the event. So executions,
// promise outcomes and published events happen exactly once. The effect of an http target is a
// request: a delivery, which the dispatcher sends at least once.
//
// To add a kind of target, add a file with its Settings and a line in kinds; see docs/targets.md.
// Package targets performs no I/O.
package targets

import (
	"encoding/json"
	"net/url"
	"slices"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/effects"
	"github.com/eventhook/eventhook/internal/payload"
)

// kinds lists the kinds of targets in the order of docs/targets.md.
var kinds = Table[Settings]{
	{"workflow", func() Settings { return new(workflow) }},
	{"task", func() Settings { return new(task) }},
	{"promise", func() Settings { return new(promise) }},
	{"publish", func() Settings { return new(publish) }},
	{"http", func() Settings { return new(httpRequest) }},
	{"nats", func() Settings { return new(NATS) }},
	{"kafka", func() Settings { return new(Kafka) }},
	{"amqp", func() Settings { return new(AMQP) }},
	{"redis_stream", func() Settings { return new(RedisStream) }},
	{"sqs", func() Settings { return new(SQS) }},
	{"pubsub", func() Settings { return new(PubSub) }},
}

// Settings is the configuration of one kind of target: a pointer to a struct in which each exported
// field is a member of the target's JSON, named by its json tag. The tags doc, enum, example,
// minimum, maximum, minLength and maxLength describe the member in the OpenAPI document. A string
// with a secret tag is sealed at rest and never shown. The tag names the member that identifies the
// recipient of the secret; if that member changes, the secret must be set again.
type Settings interface {
	Checked
	// Compile returns the effector. It is called only if Check reported no faults, and performs no
	// I/O.
	Compile(Deps) (Effector, error)
}

// Effector computes the effect of one configured target for an event. It is pure and safe for
// concurrent use. An error is permanent, since the same event would fail again. Its text is shown
// to users.
type Effector interface {
	Effect(e *eventhook.Event, v *payload.View, now time.Time) (effects.Effect, error)
}

// Deps are the dependencies of Compile.
type Deps struct {
	// CheckHost returns why requests to a URL would fail, as far as this is known without sending
	// one. It is set when a caller tests a target. Its text is shown to users. If it is nil,
	// Compile does not check.
	CheckHost func(u *url.URL) error

	route eventhook.RouteID // the route of the target; part of the idempotency keys of its requests
	index int               // the index of the target in its route; likewise
}

// Types returns the target types in the order of the documentation.
func Types() []string { return kinds.Names() }

// NewSettings returns empty settings of a type, nil if the type is unknown.
func NewSettings(typ string) Settings {
	if k, ok := kinds.find(typ); ok {
		return k.New()
	}
	return nil
}

// New compiles a configured target. The error wraps eventhook.ErrUnknownTarget if the type is
// unknown. New also returns an error if Parse would report a fault, or if a secret is missing
// because the key that sealed it is not configured.
func New(t eventhook.Target, d Deps) (Effector, error) { return compile(kinds, t, d) }

func compile(all Table[Settings], t eventhook.Target, d Deps) (Effector, error) {
	s, err := all.Open(t)
	if err != nil {
		return nil, err
	}
	d.route, d.index = t.RouteID, t.Index
	return s.Compile(d)
}

// Parse decodes a target from its JSON: one flat object with the type and the settings of its kind.
// It reports every fault by its member and returns the parts that could be decoded. If secret is
// not nil, Parse replaces each secret with secret(member, text). In the returned target the secrets
// are separate from the settings. Parse does not change a secret that is written as [redacted];
// KeepSecrets replaces it.
func Parse(raw json.RawMessage, secret func(member, text string) string) (eventhook.Target, eventhook.Faults) {
	return kinds.Parse(raw, secret)
}

// Format encodes a target as JSON with its members in the order of the documentation. Each secret
// is replaced with secret(member, text). Format returns an error if a secret is missing.
func Format(t eventhook.Target, secret func(member, text string) string) (json.RawMessage, error) {
	return kinds.Format(t, secret)
}

// Names returns the names of the kinds in their order.
func (all Table[S]) Names() []string {
	names := make([]string, len(all))
	for i, k := range all {
		names[i] = k.Name
	}
	return names
}

func (all Table[S]) find(name string) (k Kind[S], ok bool) {
	i := slices.IndexFunc(all, func(k Kind[S]) bool { return k.Name == name })
	if i < 0 {
		return k, false
	}
	return all[i], true
}
