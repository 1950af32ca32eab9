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

func TestAChangeOfTheScopeFilterNarrowsItIfAPatternIsMissing(t *testing.T) {
	for _, c := range []struct {
		from, to []string
		want     bool
	}{
		{nil, nil, false},
		{nil, []string{"a"}, true},
		{[]string{"a"}, nil, false},
		{[]string{"a"}, []string{"a", "b"}, false},
		{[]string{"a", "b"}, []string{"b", "a"}, false},
		{[]string{"a", "b"}, []string{"b"}, true},
		{[]string{"a"}, []string{"b"}, true},
		{[]string{"a/*"}, []string{"a/b"}, true},
	} {
		if got := eventhook.NarrowsScope(c.from, c.to); got != c.want {
			t.Errorf("%q to %q: got %t, want %t", c.from, c.to, got, c.want)
		}
	}
}

// A customer that sees a subscription sees its tests.
func TestTheScopeOfATestIsThatOfTheCustomer(t *testing.T) {
	for _, c := range []struct {
		filter []string
		want   string
	}{
		{nil, ""}, {[]string{"*"}, ""}, {[]string{"customer-4"}, "customer-4"}, {[]string{"customer-4/*"}, "customer-4"},
		{[]string{"customer-4/eu/*", "customer-4"}, "customer-4/eu"},
	} {
		s := eventhook.SubscriptionSettings{ScopeFilter: c.filter}
		if got := s.TestScope(); got != c.want {
			t.Errorf("%q: got %q, want %q", c.filter, got, c.want)
		}
		if s.IsVisibleTo("customer-4") && !eventhook.InScope(s.TestScope(), "customer-4") {
			t.Errorf("%q: the customer sees the subscription and no test", c.filter)
		}
	}
}
