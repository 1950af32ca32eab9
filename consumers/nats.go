package consumers

import (
	"regexp"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/targets"
)

// NATS consumes a stream of JetStream through a durable pull consumer.
type NATS struct {
	targets.NATSServer
	Stream   string `json:"stream" maxLength:"255" example:"ORDERS" doc:"The stream of JetStream. It must exist."`
	Consumer string `json:"consumer" maxLength:"255" example:"eventhook" doc:"The durable consumer, which keeps what was consumed. The gateway creates it if it does not exist. An existing one must be a pull consumer with explicit acknowledgements."`
	Subject  string `json:"subject,omitempty" maxLength:"255" example:"orders.>" doc:"The subjects to consume, with the wildcards * and >. Without it: all of the stream. It counts when the gateway creates the consumer."`
	StartAt  string `json:"start_at,omitempty" enum:"oldest,newest" doc:"Where a consumer begins that the gateway creates. The default is oldest."`
}

var (
	natsName   = regexp.MustCompile(`^[^\s.*>/\\]{1,255}$`)
	natsFilter = regexp.MustCompile(`^[^\s.]+(\.[^\s.]+)*$`)
)

// Check implements targets.Checked.
func (s *NATS) Check() eventhook.Faults {
	f := s.NATSServer.Check()
	for _, m := range []struct{ name, value string }{{"stream", s.Stream}, {"consumer", s.Consumer}} {
		if !natsName.MatchString(m.value) || !isText(m.value) {
			f.Add(m.name, "must have 1 to 255 characters without spaces, dots, slashes and wildcards")
		}
	}
	if s.Subject != "" && (!natsFilter.MatchString(s.Subject) || !isText(s.Subject) || len(s.Subject) > maxPlace) {
		f.Add("subject", "must be a subject such as orders.created or orders.>")
	}
	checkStart(&f, s.StartAt)
	return f
}

// Place implements Settings.
func (s *NATS) Place() string { return "stream " + s.Stream + ", consumer " + s.Consumer }
