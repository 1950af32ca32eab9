package route_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/route"
)

// manyPatterns returns an expression with n regular expressions, each of about 44 KB when compiled.
func manyPatterns(n int) string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf(`body.t.matches('%d\\pL{0,470}')`, i))
	}
	return strings.Join(list, " || ")
}

// Each route is within the limits of one route. All of them together would need 90 MB.
func TestRoutesOfASourceAreBoundedTogether(t *testing.T) {
	routes := make([]eventhook.Route, 100)
	for i := range routes {
		r := newRoute(fmt.Sprint("r", i), "", "ok")
		r.FilterExpression = manyPatterns(20)
		routes[i] = enabled(r)
	}
	list := explain(t, compile(routes...), newEvent("push"))
	first, last := list[0], list[len(list)-1]
	if strings.Contains(first.Reason, "when compiled") {
		t.Errorf("the first route: got %q, want it evaluated", first.Reason)
	}
	if want := "the filters of the source's routes take more than 67108864 bytes when compiled"; !strings.Contains(last.Reason, want) {
		t.Errorf("the last route: got %q, want %q", last.Reason, want)
	}
}

// There is one worker of each kind. Routes that take 20 s to compile block it for half a second in all,
// and their events are postponed.
func TestRoutesThatCompileForLongDelayNoOtherTenant(t *testing.T) {
	inBubble(t, largeQueue, func(t *testing.T, b *harness) {
		slow, quick := newRoute("slow", "", "slow"), newRoute("quick", "", "ok")
		slow.TenantID, quick.TenantID = eventhook.TenantID{slowTenant}, eventhook.TenantID{plainTenant}
		compile := b.compile
		b.compile = func(target eventhook.Target) (route.Effector, error) {
			if kindOf(target) == "slow" {
				time.Sleep(20 * time.Second)
			}
			return compile(target)
		}
		for source := range byte(4) {
			b.handOverOf(1, slowTenant, 100+source, slow)
		}
		b.handOverOf(1, plainTenant, 1, quick)
		b.run()
		b.pass(100 * time.Millisecond)
		if got := b.delivered(plainTenant); got != 1 {
			t.Errorf("after 0.1 s: got %d events of the other tenant delivered, want 1", got)
		}
		b.pass(5 * time.Minute)
		synctest.Wait()
		if got := b.delivered(slowTenant); got != 4 {
			t.Errorf("after 5 minutes: got %d events of slow routes delivered, want all 4", got)
		}
	})
}
