package targets

import (
	"regexp"

	"github.com/eventhook/eventhook"
)

// Kafka produces records to a topic of Kafka, or of a broker that speaks its protocol.
type Kafka struct {
	Brokers       string `json:"brokers" maxLength:"2048" example:"broker-1.example:9092,broker-2.example:9092" doc:"Host and port of one or more brokers, separated by commas."`
	Topic         string `json:"topic" maxLength:"255" example:"orders" doc:"The topic. It must exist: the gateway does not ask the broker to create it."`
	PartitionPath string `json:"partition_path,omitempty" example:"body.shard" doc:"The path in the event to the number of the partition. Without it, or without a value, the key decides, as in the Java client; without a key, the gateway chooses."`
	TLS           *bool  `json:"tls,omitempty" doc:"Whether to connect with TLS. The default is true."`
	Mechanism     string `json:"mechanism,omitempty" enum:"plain,scram-sha-256,scram-sha-512" doc:"The SASL mechanism. The default is plain if username is set."`
	Username      string `json:"username,omitempty" maxLength:"255" doc:"User name. It needs password."`
	Password      string `json:"password,omitempty" secret:"brokers" maxLength:"4096" doc:"Password of username."`
	CA            string `json:"ca,omitempty" maxLength:"65536" doc:"Certificates in PEM that replace the system's authorities."`
	MessageSettings
}

// kafkaTopic is the rule of Kafka for names of topics.
var kafkaTopic = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,249}$`)

// Check implements Settings.
func (s *Kafka) Check() (f eventhook.Faults) {
	checkAddresses(&f, "brokers", s.Brokers, "broker.example:9092")
	if !kafkaTopic.MatchString(s.Topic) || s.Topic == "." || s.Topic == ".." {
		f.Add("topic", "must have 1 to 249 letters, digits, dots, _ or -")
	}
	checkPath(&f, "partition_path", s.PartitionPath)
	checkOneOf(&f, "mechanism", s.Mechanism, "plain", "scram-sha-256", "scram-sha-512")
	checkLogin(&f, s.Username, s.Password)
	if s.Mechanism != "" && s.Username == "" {
		f.Add("username", "is required by mechanism")
	}
	checkCA(&f, s.CA)
	return append(f, s.MessageSettings.Check()...)
}

// Compile implements Settings.
func (s *Kafka) Compile(d Deps) (Effector, error) {
	partition, err := optionalPath(s.PartitionPath)
	if err != nil {
		return nil, err
	}
	x, err := compileBroker(d, "kafka", s, s.MessageSettings)
	if m, ok := x.(*Message); ok {
		m.partition = partition
	}
	return x, err
}

// Server implements Broker.
func (s *Kafka) Server() string { return s.Brokers }

// Place implements Broker.
func (s *Kafka) Place() string { return s.Topic }

// UsesTLS reports whether connections use TLS.
func (s *Kafka) UsesTLS() bool { return s.TLS == nil || *s.TLS }

func (s *Kafka) connection() any {
	return []any{s.Brokers, s.UsesTLS(), s.Mechanism, s.Username, s.Password, s.CA}
}

var _ Broker = (*Kafka)(nil)
