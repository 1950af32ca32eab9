package brokers

import (
	"context"
	"errors"

	"github.com/eventhook/eventhook/targets"
)

func (b *Brokers) openSQS(_ context.Context, _ *targets.SQS) (Connection, error) {
	return nil, errors.New("not written yet")
}
