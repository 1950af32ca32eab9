package brokers

import (
	"context"
	"errors"

	"github.com/eventhook/eventhook/targets"
)

func (b *Brokers) openAMQP(_ context.Context, _ *targets.AMQP) (Connection, error) {
	return nil, errors.New("not written yet")
}
