// Package targets compiles targets: a target returns the effects.Effect of an event, and
// the store writes it in the transaction that stores or settles the event. Executions,
// promise outcomes and published events happen exactly once. The effect of an http target
// is a request: a delivery, which the dispatcher sends at least once. A kind of target is
// one file and one line in kinds; see docs/targets.md.
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

// kinds has a line for each kind of target, in the order of docs/targets.md.
var kinds = table{
	{"workflow", func() Settings { return new(workflow) }},
	{"task", func() Settings { return new(task) }},
	{"promise", func() Settings { return new(promise) }},
	{"publish", func() Settings { return new(publish) }},
	{"http", func() Settings { return new(httpRequest) }},
}

// Settings are what one kind of target is configured with: a pointer to a
// struct, of which each exported field is a member of the target as people
// write it, named by its json tag. The tags doc, enum, example, minimum,
// maximum, minLength and maxLength describe it in the API's document. A text
// with a tag secret is sealed at rest and never shown; the tag names the member
// that says to whom it is given, and when that is changed, the secret must be
// given again.
type Settings interface {
	// Check reports every fault by its member, and quotes nothing that may be a
	// secret. It changes nothing.
	Check() eventhook.Faults
	// Compile makes what Check has nothing against ready for events. It asks
	// nobody outside.
	Compile(Deps) (Effector, error)
}

// Effector turns an event into what one configured target wants done. It is
// pure and safe for concurrent use. An error is permanent: the same event
// would fail again. Its text is shown to users.
type Effector interface {
	Effect(e *eventhook.Event, v *payload.View, now time.Time) (effects.Effect, error)
}

// Deps are what kinds need of others.
type Deps struct {
	// CheckHost returns why requests to a URL would fail, as far as that is known
	// before they are made: for trying a target out. Its text is for people. If it is
	// nil, the attempts find out.
	CheckHost func(u *url.URL) error

	// What is being compiled; the idempotency keys of its requests name it.
	route eventhook.RouteID
	index int
}

// Types are the target types, in the order of the documentation.
func Types() []string { return kinds.names() }

// NewSettings is the settings of a type of which nothing is said; nil for no type.
func NewSettings(typ string) Settings {
	if k, ok := kinds.find(typ); ok {
		return k.blank()
	}
	return nil
}

// New compiles a configured target. It fails on what Parse finds fault with, on a
// type that is none with eventhook.ErrUnknownTarget, and when a secret is
// missing, since the key that it was sealed with is gone.
func New(t eventhook.Target, d Deps) (Effector, error) { return kinds.compile(t, d) }

// Parse reads a target as people write it: one flat JSON object, its type and the
// settings of its kind. It reports every fault by its member, and returns what
// could be read. secret, unless nil, says what a text that is written for a
// secret stands for; in the target, the secrets are apart. One that is written
// as [redacted] is for KeepSecrets.
func Parse(raw json.RawMessage, secret func(member, text string) string) (eventhook.Target, eventhook.Faults) {
	return kinds.read(raw, secret)
}

// Format is a target as people write it, its members in the order of the
// documentation, each secret being what secret makes of it. It fails if a secret
// is missing.
func Format(t eventhook.Target, secret func(member, text string) string) (json.RawMessage, error) {
	return kinds.show(t, secret)
}

// names are the types, in their order.
func (all table) names() []string {
	names := make([]string, len(all))
	for i, k := range all {
		names[i] = k.name
	}
	return names
}

// find finds a kind by its name.
func (all table) find(name string) (kind, bool) {
	i := slices.IndexFunc(all, func(k kind) bool { return k.name == name })
	if i < 0 {
		return kind{}, false
	}
	return all[i], true
}
