package brokers

import (
	"context"
	"errors"

	"github.com/eventhook/eventhook/targets"
)

func (b *Brokers) openRedisStream(_ context.Context, _ *targets.RedisStream) (Connection, error) {
	return nil, errors.New("not written yet")
}
