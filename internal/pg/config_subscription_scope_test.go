package pg

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
)

// The condition of the list and SubscriptionSettings.IsVisibleTo agree.
func TestSubscriptionsOfAScope(t *testing.T) {
	f := setUp(t)
	filters := [][]string{nil, {}, {"*"}, {"customer-4"}, {"customer-42"}, {"customer-42/*"}, {"customer-4/*"}, {"customer-4", "customer-42"},
		{"customer-42", "customer-42/orders/*"}, {"%"}}
	var all []eventhook.Subscription
	for _, filter := range filters {
		f.clock.Advance(time.Millisecond)
		s := f.insertSubscription()
		s.ScopeFilter = filter
		settings, err := json.Marshal(s.SubscriptionSettings)
		f.must(err)
		f.exec(`UPDATE eventhook.subscription SET settings = $2 WHERE id = $1`, [16]byte(s.ID), settings)
		all = append(all, *s)
	}
	for _, scope := range []string{"customer-4", "customer-42", "customer-42/orders", "customer", "%"} {
		want := map[eventhook.SubscriptionID]bool{}
		for _, s := range all {
			if s.IsVisibleTo(scope) {
				want[s.ID] = true
			}
		}
		list, err := f.db.Subscriptions(t.Context(), f.tenant, eventhook.SubscriptionFilter{Scope: scope, Limit: len(want)})
		f.must(err)
		got := map[eventhook.SubscriptionID]bool{}
		for _, s := range list {
			got[s.ID] = true
		}
		same(t, scope, got, want)
	}
}
