package match_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound/match"
)

// scoped returns an active subscription to event types and scopes, each separated by spaces.
func scoped(name, types, scopes string) eventhook.Subscription {
	s := subscriber(name, types, "")
	s.ScopeFilter = strings.Fields(scopes)
	return s
}

// newsOf returns an event with a scope, which is JSON.
func newsOf(eventType, scope string) *eventhook.Event {
	e := news(eventType, `{}`)
	e.Envelope = &eventhook.Envelope{Scope: []byte(scope)}
	return e
}

func TestScopeFilters(t *testing.T) {
	r := match.CompileMatcher(1, []eventhook.Subscription{
		scoped("exact", "payment.*", "customer-42"),
		scoped("prefix", "*", "customer-42/*"),
		scoped("deep", "*", "customer-42/eu/*"),
		subscriber("unscoped", "payment.made", ""),
		scoped("any", "*", "*"),
		scoped("several", "*", "customer-42/* customer-7 * customer-42/eu/* customer-7"),
		scoped("other type", "refund.*", "*"),
	}, nil)
	for _, c := range []struct{ eventType, scope, want string }{
		{"payment.made", ``, "unscoped"},
		{"payment.made", `null`, "unscoped"},
		{"order.made", ``, ""},
		{"payment.made", `"customer-42"`, "exact,unscoped,any,several"},
		{"payment.made", ` "customer\u002d42" `, "exact,unscoped,any,several"},
		{"payment.made", `"customer-42/eu"`, "prefix,unscoped,any,several"},
		{"payment.made", `"customer-42/"`, "prefix,unscoped,any,several"},
		{"order.made", `"customer-42/eu/berlin"`, "prefix,deep,any,several"},
		{"payment.made", `"customer-421"`, "unscoped,any,several"},
		{"payment.made", `"Customer-42"`, "unscoped,any,several"},
		{"payment.made", `"*"`, "unscoped,any,several"},
		{"payment.made", `"customer-42/*"`, "prefix,unscoped,any,several"},
		{"payment.made", `{"id":"customer-42"}`, "unscoped,any,several"},
		{"payment.made", `42`, "unscoped,any,several"},
		{"refund.made", `"x"`, "any,several,other type"},
	} {
		if got := strings.Join(namesOf(r.Wants(newsOf(c.eventType, c.scope))), ","); got != c.want {
			t.Errorf("%s with the scope %s: got %s, want %s", c.eventType, c.scope, got, c.want)
		}
	}
}

// The index finds the same subscriptions as a check of every subscription.
func TestScopeIndexMatchesLikeALinearScan(t *testing.T) {
	chance := rand.New(rand.NewPCG(3, 4))
	path := func() string {
		steps := make([]string, 1+chance.IntN(4))
		for i := range steps {
			steps[i] = []string{"a", "b", "c"}[chance.IntN(3)]
		}
		return strings.Join(steps, "/")
	}
	accepts := func(pattern, scope string) bool {
		prefix, isPrefix := strings.CutSuffix(pattern, "*")
		return pattern == scope || isPrefix && strings.HasPrefix(scope, prefix)
	}
	for range 200 {
		list := make([]eventhook.Subscription, chance.IntN(20))
		for i := range list {
			list[i] = scoped(fmt.Sprint(i), []string{"*", "x.made", "x.* *", "y.*"}[chance.IntN(4)], "")
			for range chance.IntN(4) {
				list[i].ScopeFilter = append(list[i].ScopeFilter, []string{"*", path(), path() + "/*"}[chance.IntN(3)])
			}
		}
		r := match.CompileMatcher(1, list, nil)
		for range 20 {
			scope := path()
			var want []string
			for _, s := range list {
				isAccepted := len(s.ScopeFilter) == 0 || slices.ContainsFunc(s.ScopeFilter, func(p string) bool { return accepts(p, scope) })
				if isAccepted && s.EventTypes[0] != "y.*" {
					want = append(want, s.Name)
				}
			}
			if diff := cmp.Diff(want, namesOf(r.Wants(newsOf("x.made", `"`+scope+`"`)))); diff != "" {
				t.Fatalf("the scope %s of %v (-want +got):\n%s", scope, list, diff)
			}
		}
	}
}

// scopedSubscriptions returns n subscriptions to all types, each with a scope of its own.
func scopedSubscriptions(n int) []eventhook.Subscription {
	list := make([]eventhook.Subscription, n)
	for i := range list {
		list[i] = scoped(fmt.Sprint(i), "*", fmt.Sprintf("customer-%d customer-%d/*", i, i))
	}
	return list
}

// Subscriptions to other scopes allocate no memory.
func TestSubscriptionsToOtherScopesAllocateNothing(t *testing.T) {
	e := newsOf("payment.made", `"customer-3/eu"`)
	allocations := func(n int) float64 {
		r := match.CompileMatcher(1, scopedSubscriptions(n), nil)
		return testing.AllocsPerRun(200, func() { r.Match(nil, e) })
	}
	if few, many := allocations(10), allocations(5000); many > few {
		t.Errorf("got %.0f allocations with 5000 subscriptions, want those with ten, %.0f", many, few)
	}
}

// A long scope of many slashes costs no more than the longest pattern has.
func TestALongScopeIsBounded(t *testing.T) {
	r := match.CompileMatcher(1, []eventhook.Subscription{scoped("s", "*", "a/*")}, nil)
	e := newsOf("payment.made", `"a`+strings.Repeat("/", 1<<20)+`"`)
	if allocations := testing.AllocsPerRun(5, func() { r.Match(nil, e) }); allocations > 400 {
		t.Errorf("got %.0f allocations, want at most 400", allocations)
	}
	if got := namesOf(r.Wants(e)); len(got) != 1 {
		t.Errorf("got %v, want s", got)
	}
}

// BenchmarkScopes matches an event with 10 000 subscriptions that have scope filters, one of
// which matches, and with ten. Both should cost about the same.
func BenchmarkScopes(b *testing.B) {
	e := newsOf("payment.made", `"customer-3/eu"`)
	few, many := match.CompileMatcher(1, scopedSubscriptions(10), nil), match.CompileMatcher(1, scopedSubscriptions(10_000), nil)
	var ofFew, ofMany time.Duration
	b.ReportAllocs()
	for b.Loop() {
		began := time.Now()
		few.Match(nil, e)
		between := time.Now()
		many.Match(nil, e)
		ofFew, ofMany = ofFew+between.Sub(began), ofMany+time.Since(between)
	}
	b.ReportMetric(ofMany.Seconds()/ofFew.Seconds(), "ratio(at-most-1.5)")
}
