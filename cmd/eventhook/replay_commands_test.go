package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/eventhook/eventhook/internal/cli/clitest"
	"github.com/eventhook/eventhook/internal/pgtest"
)

// startBilling starts a gateway with the subscription billing of a receiver. A delivery dies with
// its first failure, and the fifth disables the subscription.
func startBilling(t *testing.T) (*instance, *subscriber) {
	t.Helper()
	gateway, receiver := startDelivering(t, pgtest.New(t)), newSubscriber(t)
	gateway.at(t, testAdminKey)
	mustRun(t, `subscription create billing --type 'payment.*' --retry {"max_retries":0} --disable-after 5 --url `+receiver.url)
	return gateway, receiver
}

func down(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }

// wantEachOnce waits until the receiver has answered n events, and fails the test if an event
// came again after that.
func (s *subscriber) wantEachOnce(t *testing.T, n int) {
	t.Helper()
	clitest.Eventually(t, fmt.Sprintf("%d events have arrived", n), func() bool { return s.count(eventsOf) >= n })
	if again := s.count(repeatedOf); again > 0 {
		t.Errorf("%d deliveries came again after they were answered, want none", again)
	}
}

// The customer's story: a receiver died, its failures disabled the subscription, the receiver came
// back, and the subscription was enabled. It ends with 16 of 16 events, each once.
func TestAnOutageOfACustomerEndsWithAllEvents(t *testing.T) {
	gateway, receiver := startBilling(t)
	page := pageCommands(t, "docs/receiving.md", "### The life of a delivery")
	isField := func(name, want string) func() bool {
		shown := regexp.MustCompile(`(?m)^` + name + ` +` + want)
		return func() bool { return shown.MatchString(mustRun(t, "subscription get billing")) }
	}
	gateway.mustPublish("payment.made", 4)
	clitest.Eventually(t, "4 events are delivered", func() bool {
		return strings.Count(mustRun(t, "delivery list --subscription billing --status success"), "success") == 4
	})
	receiver.setHandler(down)
	gateway.mustPublish("payment.made", 5)
	clitest.Eventually(t, "failures disable the subscription", isField("status", "disabled"))
	for range 7 {
		mustRun(t, `publish payment.made --data {"amount":42}`)
	}
	clitest.WantInOrder(t, runPage(t, &page, "subscription get billing"), "disabled", "open", "missed", "12")
	receiver.setHandler(nil)
	runPage(t, &page, "subscription enable billing")
	receiver.wantEachOnce(t, 16)
	clitest.Eventually(t, "the recovery is completed", func() bool {
		return strings.Contains(mustRun(t, "subscription replays billing"), "completed")
	})
	clitest.WantInOrder(t, runPage(t, &page, "subscription replays billing"), "recovery", "completed")
	clitest.Eventually(t, "the circuit is closed", isField("circuit", "closed"))
	receiver.wantEachOnce(t, 16)
	if events := mustRun(t, "event list --type webhook.*"); !strings.Contains(events, "webhook.disabled") || !strings.Contains(events, "webhook.recovered") {
		t.Errorf("the events are\n%s\nwant the disabling and the recovery among them", events)
	}
	if len(page) > 0 {
		t.Errorf("the commands %q of the page have not run", page)
	}
}

// A user disabled the subscription, so that nothing was stored for it. A replay sends the events
// that have no delivery.
func TestTheCommandsOfThePageOnReplay(t *testing.T) {
	gateway, receiver := startBilling(t)
	page := pageCommands(t, "docs/replay.md", "# Replay")
	gateway.mustPublish("payment.made", 2)
	receiver.wantEachOnce(t, 2)
	receiver.setHandler(down)
	gateway.mustPublish("payment.made", 3)
	clitest.Eventually(t, "deliveries are dead", func() bool {
		return strings.Count(mustRun(t, "delivery list --subscription billing --status dead"), "dead") == 3
	})
	mustRun(t, "subscription disable billing")
	gateway.mustPublish("payment.made", 7)
	gateway.mustPublish("order.made", 1)
	receiver.setHandler(nil)
	mustRun(t, "subscription enable billing")
	clitest.WantInOrder(t, runPage(t, &page, "subscription replay billing --since 24h"), "Replay", "about", "events")
	receiver.wantEachOnce(t, 5)
	clitest.WantInOrder(t, runPage(t, &page, "subscription replay billing --since 24h --missing"), "Replay")
	receiver.wantEachOnce(t, 12)
	clitest.WantInOrder(t, runPage(t, &page, "subscription replay billing --since 24h --type 'payment.*' --wait"), "completed", "matched", "0")
	clitest.WantInOrder(t, runPage(t, &page, "subscription replays billing"), "KIND", "replay", "completed")
	clitest.WantInOrder(t, runPage(t, &page, "subscription replays billing latest"), "status", "completed")
	mustRun(t, "subscription pause billing")
	mustRun(t, "subscription replay billing --since 24h --status success")
	clitest.WantInOrder(t, runPage(t, &page, "subscription replay-cancel billing latest"), "status", "cancelled")
	mustRun(t, "subscription resume billing")
	runRequest(t, gateway)
	receiver.wantEachOnce(t, 12)
	if len(page) > 0 {
		t.Errorf("the commands %q of the page have not run", page)
	}
}

// runRequest runs the request with curl of docs/replay.md for the subscription billing.
func runRequest(t *testing.T, gateway *instance) {
	t.Helper()
	blocks := pageBlocks(t, "docs/replay.md", "# Replay")
	request, isRequest := strings.CutPrefix(blocks[len(blocks)-1], "curl ")
	if !isRequest {
		t.Fatal("docs/replay.md has no request with curl")
	}
	var list struct{ Items []struct{ ID string } }
	if status := gateway.call("GET", "/subscriptions", nil, &list); status != http.StatusOK || len(list.Items) != 1 {
		t.Fatalf("got %d, %+v, want one subscription", status, list)
	}
	got := gateway.shell(t, "EVENTHOOK_KEY="+testAdminKey+" ID="+list.Items[0].ID+"\ncurl -sS "+request)
	var answer struct {
		ReplayID  string `json:"replay_id"`
		Estimated *int   `json:"estimated"`
	}
	if err := json.Unmarshal([]byte(got), &answer); err != nil || answer.ReplayID == "" || answer.Estimated == nil {
		t.Errorf("the request of the page was answered %s (%v)", got, err)
	}
}

// The numbers that the page expects: 12 subscriptions to payment.*, 3 disabled ones, 7 dead
// deliveries.
func TestTheBulkCommandsOfThePageOnReplay(t *testing.T) {
	t.Setenv("STRIPE_SECRET", "whsec_an_example_0123456789")
	gateway, receiver := startBilling(t)
	for i := range 11 {
		mustRun(t, fmt.Sprintf("subscription create other-%d --type payment.refunded --url %s", i, receiver.url))
	}
	for i := range 3 {
		mustRun(t, fmt.Sprintf("subscription create idle-%d --type order.made --url %s", i, receiver.url))
		mustRun(t, fmt.Sprintf("subscription disable idle-%d ", i))
	}
	mustRun(t, "subscription update billing --disable-after 0")
	receiver.setHandler(down)
	gateway.mustPublish("payment.made", 7)
	clitest.Eventually(t, "deliveries are dead", func() bool {
		return strings.Count(mustRun(t, "delivery list --subscription billing --status dead"), "dead") >= 7
	})
	page := pageCommands(t, "docs/replay.md", "## Changing many objects at once")
	for _, wrong := range []string{"subscription pause --type payment.* --expect 11", "subscription enable --status disabled --expect 4",
		"delivery retry --subscription billing --status dead --limit 1000 --expect 6"} {
		if got := runCommand(strings.Fields(wrong)...); got.Code == 0 || !strings.Contains(got.Stderr, "Nothing was changed") {
			t.Errorf("eventhook %s: got %+v, want a refusal", wrong, got)
		}
	}
	clitest.WantInOrder(t, runPage(t, &page, "subscription pause --type 'payment.*' --expect 12"), "12")
	clitest.WantInOrder(t, runPage(t, &page, "subscription enable --status disabled --expect 3"), "3")
	clitest.WantInOrder(t, runPage(t, &page, "delivery retry --subscription billing --status dead --limit 1000 --expect 7"), "Retried: 7")
	mustRun(t, "source create stripe --provider stripe --secret-env STRIPE_SECRET")
	for range 4 {
		mustRun(t, "send stripe --secret-env STRIPE_SECRET")
	}
	clitest.Eventually(t, "the events are unrouted", func() bool {
		return strings.Count(mustRun(t, "event list --source stripe --status unrouted"), "unrouted") == 4
	})
	clitest.WantInOrder(t, runPage(t, &page, "event reprocess --status unrouted --source stripe --limit 100 --expect 4"), "Reprocessed: 4")
	if len(page) > 0 {
		t.Errorf("the commands %q of the page have not run", page)
	}
}
