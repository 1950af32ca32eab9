package brokers

import (
	"strconv"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/eventhook/eventhook"
)

// chosenPartition and noPartition are values of Record.Partition that are no numbers: the partitioner
// shall choose, and the topic has no partition with the number.
const (
	chosenPartition = -1
	noPartition     = -2
)

// kafkaPartition returns the number of a partition from a value in an event.
func kafkaPartition(text string) (int32, error) {
	if text == "" {
		return chosenPartition, nil
	}
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return 0, Errorf(eventhook.ErrorRefused, "the value at partition_path is not the number of a partition")
	}
	return int32(n), nil
}

// kafkaPartitioner chooses partitions as the Java client does, and takes the number that a record
// already has.
type kafkaPartitioner struct{ byKey kgo.Partitioner }

// ForTopic implements kgo.Partitioner.
func (p kafkaPartitioner) ForTopic(topic string) kgo.TopicPartitioner {
	return kafkaTopicPartitioner{p.byKey.ForTopic(topic)}
}

type kafkaTopicPartitioner struct{ kgo.TopicPartitioner }

// RequiresConsistency implements kgo.TopicPartitioner.
func (p kafkaTopicPartitioner) RequiresConsistency(r *kgo.Record) bool {
	return r.Partition >= 0 || p.TopicPartitioner.RequiresConsistency(r)
}

// Partition implements kgo.TopicPartitioner.
func (p kafkaTopicPartitioner) Partition(r *kgo.Record, n int) int {
	switch {
	case r.Partition < 0:
		return p.TopicPartitioner.Partition(r, n)
	case int(r.Partition) >= n:
		r.Partition = noPartition
		return noPartition
	}
	return int(r.Partition)
}

// OnNewBatch implements kgo.TopicPartitionerOnNewBatch: records without a key change their partition.
func (p kafkaTopicPartitioner) OnNewBatch() {
	p.TopicPartitioner.(kgo.TopicPartitionerOnNewBatch).OnNewBatch() //nolint:forcetypeassert // a sticky one
}
