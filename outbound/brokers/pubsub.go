package brokers

import (
	"context"
	"errors"

	"github.com/eventhook/eventhook/targets"
)

func (b *Brokers) openPubSub(_ context.Context, _ *targets.PubSub) (Connection, error) {
	return nil, errors.New("not written yet")
}
