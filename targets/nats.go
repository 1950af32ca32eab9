package targets

import (
	"cmp"
	"regexp"
	"strings"

	"github.com/eventhook/eventhook"
)

// NATS publishes messages to a subject of NATS, by default through JetStream.
type NATS struct {
	NATSServer
	Subject  string `json:"subject" maxLength:"255" example:"orders.{key}" doc:"The subject. {key} stands for the value at key_path; spaces, dots and wildcards in it become _, and so does a missing value."`
	Delivery string `json:"delivery,omitempty" enum:"jetstream,core" doc:"jetstream, the default: a stream must store the message and acknowledge it. core: the server must have received it; nobody may have subscribed to it."`
	MessageSettings
}

// natsSubject has tokens without white space and wildcards.
var natsSubject = regexp.MustCompile(`^[^\s.*>]+(\.[^\s.*>]+)*$`)

// Check implements Settings.
func (s *NATS) Check() eventhook.Faults {
	f := s.NATSServer.Check()
	if !natsSubject.MatchString(s.Subject) || strings.HasPrefix(s.Subject, "$") || len(s.Subject) > maxPlace {
		f.Add("subject", "must be a subject without wildcards, such as orders.created or orders.{key}")
	}
	checkKeyed(&f, "subject", s.Subject, s.KeyPath)
	checkOneOf(&f, "delivery", s.Delivery, "jetstream", "core")
	return append(f, s.MessageSettings.Check()...)
}

// Compile implements Settings.
func (s *NATS) Compile(d Deps) (Effector, error) {
	return compileBroker(d, "nats", s, s.MessageSettings)
}

// Place implements Broker.
func (s *NATS) Place() string { return s.Subject }

// SubjectOf returns the subject of a message with a key.
func (s *NATS) SubjectOf(key string) string {
	return withKey(s.Subject, cmp.Or(strings.Map(func(c rune) rune {
		if c <= ' ' || c == 0x7f || strings.ContainsRune(".*>", c) {
			return '_'
		}
		return c
	}, key), "_"))
}

var _ Broker = (*NATS)(nil)
