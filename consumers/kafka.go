package consumers

import (
	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/targets"
)

// Kafka consumes a topic of Kafka as a member of a consumer group.
type Kafka struct {
	targets.KafkaCluster
	Topic   string `json:"topic" maxLength:"249" example:"orders" doc:"The topic. It must exist: the gateway does not ask the broker to create it."`
	Group   string `json:"group" maxLength:"255" example:"eventhook" doc:"The consumer group, whose offsets tell what was consumed. A group of its own for each source."`
	StartAt string `json:"start_at,omitempty" enum:"oldest,newest" doc:"Where a group without offsets begins. The default is oldest."`
}

// Check implements targets.Checked.
func (s *Kafka) Check() eventhook.Faults {
	f := s.KafkaCluster.Check()
	targets.CheckTopic(&f, s.Topic)
	checkPlace(&f, "group", s.Group)
	checkStart(&f, s.StartAt)
	return f
}

// Place implements Settings.
func (s *Kafka) Place() string { return "topic " + s.Topic + ", group " + s.Group }
