package targets

import (
	"regexp"

	"github.com/eventhook/eventhook"
)

// Kafka produces records to a topic of Kafka, or of a broker that speaks its protocol.
type Kafka struct {
	KafkaCluster
	Topic         string `json:"topic" maxLength:"255" example:"orders" doc:"The topic, of at most 249 characters. It must exist: the gateway does not ask the broker to create it."`
	PartitionPath string `json:"partition_path,omitempty" example:"body.shard" doc:"The path in the event to the number of the partition. Without it, or without a value, the key decides, as in the Java client; without a key, the gateway chooses."`
	MessageSettings
}

// kafkaTopic is the rule of Kafka for names of topics.
var kafkaTopic = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,249}$`)

// Check implements Settings.
func (s *Kafka) Check() eventhook.Faults {
	f := s.KafkaCluster.Check()
	CheckTopic(&f, s.Topic)
	checkPath(&f, "partition_path", s.PartitionPath)
	return append(f, s.MessageSettings.Check()...)
}

// CheckTopic checks the name of a topic.
func CheckTopic(f *eventhook.Faults, topic string) {
	if !kafkaTopic.MatchString(topic) || topic == "." || topic == ".." {
		f.Add("topic", "must have 1 to 249 letters, digits, dots, _ or -")
	}
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

// Place implements Broker.
func (s *Kafka) Place() string { return s.Topic }

var _ Broker = (*Kafka)(nil)
