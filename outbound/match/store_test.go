package match_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound/match"
)

var errDown = errors.New("the database is down")

// store is a fake of Subscriptions in memory.
type store struct {
	mu         sync.Mutex
	generation int64
	lists      map[eventhook.TenantID][]eventhook.Subscription
	reads      int
	err        error // the error of each read
	log        *slog.Logger
	logged     *strings.Builder
}

func newStore(list ...eventhook.Subscription) *store {
	o := &store{lists: map[eventhook.TenantID][]eventhook.Subscription{}, logged: &strings.Builder{}}
	o.log = slog.New(slog.NewTextHandler(o.logged, nil))
	for _, s := range list {
		o.add(s)
	}
	return o
}

// add stores a subscription.
func (o *store) add(s eventhook.Subscription) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lists[s.TenantID] = append(o.lists[s.TenantID], s)
	o.generation++
}

func (o *store) subscriptionCache() *match.SubscriptionCache {
	return match.NewSubscriptionCache(100_000, o, o.log, time.Now)
}

func (o *store) TenantSubscriptions(ctx context.Context, tenant eventhook.TenantID) (int64, []eventhook.Subscription, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.reads++
	if err := errors.Join(ctx.Err(), o.err); err != nil {
		return 0, nil, err
	}
	return o.generation, slices.Clone(o.lists[tenant]), nil
}
