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

// march is the time at which tests start.
var march = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// acme is a tenant.
var acme = eventhook.TenantID{0xac}

// subscriber returns an active subscription of the tenant acme to event types, separated by spaces.
func subscriber(name, types, filter string) eventhook.Subscription {
	return eventhook.Subscription{
		ID: eventhook.NewID[eventhook.Subscription](march), TenantID: acme, Name: name, Status: eventhook.SubscriptionActive,
		EventTypes: strings.Fields(types), Filter: []byte(filter),
	}
}

// news returns an event that the tenant acme publishes.
func news(eventType, data string) *eventhook.Event {
	return &eventhook.Event{ID: eventhook.NewID[eventhook.Event](march), TenantID: acme, EventType: eventType, ContentType: "application/json",
		Payload: eventhook.Payload{Body: []byte(data)}}
}

func namesOf(list []*eventhook.Subscription) (names []string) {
	for _, s := range list {
		names = append(names, s.Name)
	}
	return names
}

func TestMatchingSubscriptions(t *testing.T) {
	with := func(s eventhook.Subscription, change func(*eventhook.Subscription)) eventhook.Subscription {
		change(&s)
		return s
	}
	list := []eventhook.Subscription{
		subscriber("exact", "payment.made", ""),
		subscriber("prefix", "payment.*", ""),
		subscriber("all", "*", "null"),
		subscriber("several", "* payment.* payment.made payment.made", ""),
		subscriber("other", "payment.lost refund.*", ""),
		subscriber("rich", "payment.*", `{"body.amount":{"$gte":1000}}`),
		subscriber("poor", "payment.*", `{"body.amount":{"$lt":1000}}`),
		subscriber("by event", "*", `{"event.type":{"$startsWith":"pay"},"event.source":"shop"}`),
		subscriber("broken", "*", `{"body.amount":{"$near":1}}`),
		subscriber("no types", "", ""),
		with(subscriber("paused", "payment.made", ""), func(s *eventhook.Subscription) { s.Status = eventhook.SubscriptionPaused }),
		with(subscriber("disabled", "payment.made", ""), func(s *eventhook.Subscription) { s.Status = eventhook.SubscriptionDisabled }),
		with(subscriber("agents'", "payment.made", ""), func(s *eventhook.Subscription) { s.TargetLabels = []string{"env:prod"} }),
		with(subscriber("keyless", "payment.made", ""), func(s *eventhook.Subscription) { s.SecretsLost = true }),
	}
	var broken []string
	r := match.CompileMatcher(1, list, func(s *eventhook.Subscription, why string) { broken = append(broken, s.Name+": "+why) })
	for _, c := range []struct{ eventType, data, want string }{
		{"payment.made", `{"amount":2000}`, "exact,prefix,all,several,rich,by event,paused,agents',keyless"},
		{"payment.made", `{"amount":20}`, "exact,prefix,all,several,poor,by event,paused,agents',keyless"},
		{"payment.made", `not JSON`, "exact,prefix,all,several,by event,paused,agents',keyless"},
		{"payment.lost", `{}`, "prefix,all,several,other,by event"},
		{"payment", ``, "all,several,by event"},
		{"", ``, "all,several"},
		{"refund.made.twice", `{}`, "all,several,other"},
		{"tenant.suspended", `{}`, "all,several"},
		{"tenant.created", `{}`, ""}, // visible to the admin only
	} {
		e := news(c.eventType, c.data)
		e.SourceSlug = "shop"
		if got := strings.Join(namesOf(r.Wants(e)), ","); got != c.want {
			t.Errorf("%q with %s: got %s, want %s", c.eventType, c.data, got, c.want)
		}
	}
	if len(broken) != 1 || !strings.HasPrefix(broken[0], "broken: body.amount.$near: is not one of") {
		t.Errorf("broken: got %q, want the subscription with the position of its fault", broken)
	}
}

func TestAFilterAlone(t *testing.T) {
	for text, want := range map[string]bool{
		"": true, "null": true, `{}`: true, `{"body.amount":{"$gte":10}}`: true, `{"event.type":"push"}`: true,
		`{"body.amount":{"$lt":10}}`: false, `{"body.amount":{"$near":10}}`: false, `[`: false,
	} {
		if got := match.FilterHolds([]byte(text), news("push", `{"amount":1e1}`)); got != want {
			t.Errorf("%q: got %t, want %t", text, got, want)
		}
	}
}

func TestCheckFilter(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "null": "", `{"body.amount":{"$gte":10},"event.source":"shop"}`: "",
		`{"header.x":1}`:      `header.x: "header.x" is not a path: write body.<path> or event.<field>`,
		`{"body.a":{"$x":1}}`: "body.a.$x: is not one of $eq, $ne, $gt, $gte, $lt, $lte, $in, $nin, $contains, $startsWith, $endsWith, $exists, $regex, $not",
		`[]`:                  ": must be an object of paths and conditions",
	} {
		var got []string
		for _, f := range match.CheckFilter([]byte(text)) {
			got = append(got, f.Location+": "+f.Message)
		}
		if strings.Join(got, "\n") != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}

// The index finds the same subscriptions as a check of every subscription.
func TestIndexMatchesLikeALinearScan(t *testing.T) {
	chance := rand.New(rand.NewPCG(1, 2))
	parts := []string{"a", "b", "payment", "a.b", ""}
	word := func() string {
		var steps []string
		for range 1 + chance.IntN(3) {
			steps = append(steps, parts[chance.IntN(len(parts))])
		}
		return strings.Join(steps, ".")
	}
	pattern := func() string {
		switch w := word(); chance.IntN(8) {
		case 0:
			return "*"
		case 1, 2, 3:
			return w + ".*"
		default:
			return w
		}
	}
	takes := func(pattern, eventType string) bool {
		prefix, isPrefix := strings.CutSuffix(pattern, "*")
		return pattern == "*" || pattern == eventType || isPrefix && strings.HasPrefix(eventType, prefix)
	}
	for range 200 {
		list := make([]eventhook.Subscription, chance.IntN(20))
		for i := range list {
			list[i] = subscriber(fmt.Sprint(i), "", "")
			for range 1 + chance.IntN(4) {
				list[i].EventTypes = append(list[i].EventTypes, pattern())
			}
			if n := chance.IntN(4); n < 2 {
				list[i].Filter = fmt.Appendf(nil, `{"body.n":%d}`, n)
			}
		}
		r := match.CompileMatcher(1, list, nil)
		for range 20 {
			e, n := news(word(), ""), chance.IntN(3)
			e.Body = fmt.Appendf(nil, `{"n":%d}`, n)
			var want []string
			for _, s := range list {
				isTaken := slices.ContainsFunc(s.EventTypes, func(p string) bool { return takes(p, e.EventType) })
				if isTaken && (len(s.Filter) == 0 || string(s.Filter) == fmt.Sprintf(`{"body.n":%d}`, n)) {
					want = append(want, s.Name)
				}
			}
			if diff := cmp.Diff(want, namesOf(r.Wants(e))); diff != "" {
				t.Fatalf("%q with %s of %v (-want +got):\n%s", e.EventType, e.Body, list, diff)
			}
		}
	}
}

// manySubscriptions returns n subscriptions. Ten of them match events of the type "payment.made", each
// with another pattern.
func manySubscriptions(n int) []eventhook.Subscription {
	taking := []string{"payment.made", "payment.*", "*", "payment.made refund.*", "refund.* *"}
	list := make([]eventhook.Subscription, n)
	for i := range list {
		types := fmt.Sprintf("other%d.made other%d.* payment.lost%d", i, i, i)
		if i%(n/10) == 0 {
			types = taking[i/(n/10)%len(taking)]
		}
		list[i] = subscriber(fmt.Sprint(i), types, fmt.Sprintf(`{"body.object.amount":{"$gte":10},"body.object.field%d":{"$ne":1}}`, i%997))
	}
	return list
}

var sale = `{"object":{"amount":10,"currency":"usd","note":"` + strings.Repeat("x", 800) + `"}}`

// Subscriptions that do not match an event allocate no memory.
func TestSubscriptionsThatDoNotMatchAllocateNothing(t *testing.T) {
	for claim, e := range map[string]*eventhook.Event{"by their filters": news("payment.made", sale), "by type": news("order.made", sale)} {
		allocations := func(n int) float64 {
			r := match.CompileMatcher(1, manySubscriptions(n), nil)
			return testing.AllocsPerRun(200, func() { r.Match(nil, e) })
		}
		if few, many := allocations(10), allocations(5000); many > few+1 {
			t.Errorf("%s: got %.0f allocations with 5000 subscriptions, want those with ten, %.0f", claim, many, few)
		}
	}
}

// BenchmarkMatcher matches an event with 10 000 subscriptions, ten of which match its type, and with
// these ten only. Both should cost about the same.
func BenchmarkMatcher(b *testing.B) {
	e := news("payment.made", sale)
	few, many := match.CompileMatcher(1, manySubscriptions(10), nil), match.CompileMatcher(1, manySubscriptions(10_000), nil)
	for _, c := range []struct {
		name string
		*match.Matcher
	}{{"10", few}, {"10000", many}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.Match(nil, e)
			}
		})
	}
	b.Run("both", func(b *testing.B) { // alternately, so that both run under the same conditions
		var ofFew, ofMany time.Duration
		for b.Loop() {
			began := time.Now()
			few.Match(nil, e)
			between := time.Now()
			many.Match(nil, e)
			ofFew, ofMany = ofFew+between.Sub(began), ofMany+time.Since(between)
		}
		b.ReportMetric(ofMany.Seconds()/ofFew.Seconds(), "ratio(at-most-1.5)")
	})
	b.Run("compile10000", func(b *testing.B) {
		list := manySubscriptions(10_000)
		for b.Loop() {
			match.CompileMatcher(1, list, nil)
		}
	})
}

// TestAllTypesDoNotMatchLifecycleEvents matches a stored event about a task, as a replay does.
func TestAllTypesDoNotMatchLifecycleEvents(t *testing.T) {
	var list []eventhook.Subscription
	for _, pattern := range []string{"*", "task.*", "task.dead", "task.started"} {
		list = append(list, subscriber(pattern, pattern, ""))
	}
	for claim, c := range map[string]struct {
		e    eventhook.Event
		want []string
	}{
		"the gateway's event": {eventhook.Event{EventType: "task.dead", Origin: eventhook.OriginSystem}, []string{"task.*", "task.dead"}},
		"a tenant's event":    {eventhook.Event{EventType: "task.dead", Origin: eventhook.OriginAPI}, []string{"*", "task.*", "task.dead"}},
	} {
		matched, _ := match.CompileMatcher(1, list, nil).Match(nil, &c.e)
		var got []string
		for _, s := range matched {
			got = append(got, s.Name)
		}
		slices.Sort(got)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: matched (-want +got):\n%s", claim, diff)
		}
	}
}
