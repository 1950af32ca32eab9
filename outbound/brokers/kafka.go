package brokers

import (
	"context"
	"errors"

	"github.com/eventhook/eventhook/targets"
)

func (b *Brokers) openKafka(_ context.Context, _ *targets.Kafka) (Connection, error) {
	return nil, errors.New("not written yet")
}
