package eventhook_test

import (
	"testing"

	"github.com/eventhook/eventhook"
)

func TestACustomerSeesOnlySubscriptionsOfItsScope(t *testing.T) {
	for _, c := range []struct {
		filter []string
		scope  string
		want   bool
	}{
		{nil, "customer-4", false},
		{[]string{}, "customer-4", false},
		{[]string{"customer-4"}, "customer-4", true},
		{[]string{"customer-4/*"}, "customer-4", true},
		{[]string{"customer-4/orders", "customer-4/orders/*", "customer-4"}, "customer-4", true},
		{[]string{"customer-42"}, "customer-4", false},
		{[]string{"customer-42/*"}, "customer-4", false},
		{[]string{"customer-4", "customer-42"}, "customer-4", false},
		{[]string{"customer-4", "*"}, "customer-4", false},
		{[]string{"*"}, "customer-4", false},
		{[]string{"*"}, "*", false},
		{[]string{"customer-4/*"}, "customer-4/*", false},
		{[]string{"customer-4/*"}, "customer-4/", false},
		{[]string{"customer-4"}, "customer-4/orders", false},
		{[]string{"customer-4/orders/*"}, "customer-4/orders", true},
		{[]string{"a/*"}, "", false},
		{[]string{"/*"}, "", false},
		{[]string{"Customer-4"}, "customer-4", false},
	} {
		if got := (eventhook.SubscriptionSettings{ScopeFilter: c.filter}).IsVisibleTo(c.scope); got != c.want {
			t.Errorf("%q for %q: got %t, want %t", c.filter, c.scope, got, c.want)
		}
	}
}
