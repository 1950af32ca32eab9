package consolestories_test

import (
	"context"
	"strings"
	"testing"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/browsertest"
	"github.com/eventhook/eventhook/internal/browsertest/gatewaytest"
	"github.com/eventhook/eventhook/worker"
)

// newcomer is a person who uses the console for the first time.
type newcomer struct {
	*browsertest.Page
	t           *testing.T
	g           *gatewaytest.Gateway
	key         string
	url, secret string // of the source, as the pages show them
}

// TestNewcomer adds GitHub, sees why nothing happens with a push, writes a route against it, runs it
// again and sees the task done by a worker.
func TestNewcomer(t *testing.T) {
	g := gatewaytest.Shared(t)
	gatewaytest.Must(g.Admin.CreateTenant(t.Context(), client.TenantCreate{Slug: "newcomer", Name: "Newcomer"}))
	key := gatewaytest.Must(g.Admin.CreateKey(t.Context(), "newcomer",
		client.KeyCreate{Name: "Ada", Scopes: []string{"read", "manage", "work"}}))
	n := &newcomer{Page: g.SignIn(t, *key.Key, "/console"), t: t, g: g, key: *key.Key}
	n.addsGitHub()
	n.seesWhyAPushIsRefused()
	n.seesTheFirstEvent()
	n.writesARoute()
	n.runsItAgain()
	n.seesTheTaskDone()
}

func (n *newcomer) addsGitHub() {
	n.ClickName("Sources")
	n.WaitText("main", "No sources yet")
	n.ClickName("Set up a source")
	n.Fill("#provider-filter", "github")
	n.ClickName("GitHub")
	n.WaitText("h1", "Set up GitHub")
	n.WaitText("main", "Settings → Webhooks → Add webhook")
	n.Fill("#f-slug", "shop")
	n.WaitText("#new-url", "/shop")
	n.ClickName("Copy the URL")
	n.url = pasted(n.Page)
	n.ClickName("Generate the secret and create")
	n.WaitText("main", "is shown once")
	n.secret = n.Text("#secret")
	n.ClickName("I copied the secret: go on")
	n.WaitText("#waiting", "Waiting for the first event…")
	if shown := n.Text("#ingest-url"); shown != n.url || strings.Contains(n.Text("main"), n.secret) {
		n.t.Errorf("the page shows the URL %s, the copied one is %s; it must not show the secret again", shown, n.url)
	}
}

func (n *newcomer) seesWhyAPushIsRefused() {
	browsertest.Eval[bool](n.Page, `window.sameDocument = true`)
	if status := push(n.t, n.url, "another secret", ""); status != 401 {
		n.t.Fatalf("the push with another secret was answered %d", status)
	}
	n.WaitText("#waiting", "No secret matched")
	n.WaitText("#waiting", "Copy the secret from the sender once more")
	n.WaitText("#waiting", "Waiting for the first event…")
}

func (n *newcomer) seesTheFirstEvent() {
	if status := push(n.t, n.url, n.secret, ""); status != 200 {
		n.t.Fatalf("the push was answered %d", status)
	}
	n.WaitText("#waiting .notice.ok", "The newest event arrived")
	if !browsertest.Eval[bool](n.Page, `window.sameDocument`) {
		n.t.Error("the page was loaded again")
	}
	n.ClickName("See its story")
	n.WaitText("h1", "push")
	n.WaitText("#story", "Nothing happened. The event is stored, but its source has no routes.")
}

func (n *newcomer) writesARoute() {
	n.ClickName("Write a route for this event")
	n.WaitText("h1", "New route")
	n.Fill("#f-name", "builds")
	n.Fill("#f-filter_event_types", "issues")
	n.WaitText("#verdict", "push matches none of issues")
	n.Fill("#f-filter_event_types", "push")
	n.Fill("#f-filter", `{"body.ref": "refs/heads/release"}`)
	n.WaitText("#verdict", "This event does not match")
	n.WaitText("#verdict", "refs/heads/main")
	n.Fill("#f-filter", `{"body.ref": "refs/heads/main"}`)
	n.WaitText("#verdict", "This event matches")
	n.Fill(`[name="targets[0].task_kind"]`, "build")
	n.WaitText("#verdict", "What the targets get")
	n.ClickName("Backtest the last 1 000 events")
	n.WaitText("#backtest", "Would have matched 1 of the last 1 events.")
	n.ClickName("Create route")
	n.WaitText(".notice.ok", "The route builds is created.")
}

func (n *newcomer) runsItAgain() {
	n.WaitText("#story", "one of today's routes does")
	n.ClickName("Run again")
	confirm(n.Page, "1 new event with the same payload is created")
	n.WaitText(".notice.ok", "This is the new event.")
	n.WaitText("#story", "In progress")
	n.WaitText("#story .timeline", "task")
}

func (n *newcomer) seesTheTaskDone() {
	n.works()
	n.WaitText("#story .heading", "succeeded")
	n.WaitText("#story .timeline", "completed")
	n.ClickName("Open")
	n.WaitText("h1", "build")
	n.WaitText("#execution-story", "completed")
	n.WaitText("main", "built refs/heads/main")
}

// works runs a worker until the test ends.
func (n *newcomer) works() {
	w := worker.New(n.g.URL+"/api/tenants/newcomer/eventhook", n.key).
		Handle("build", worker.Typed(func(_ context.Context, job *worker.Job, in struct{ Ref string }) error {
			job.Output = map[string]string{"result": "built " + in.Ref}
			return nil
		}))
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- w.Run(ctx) }()
	n.t.Cleanup(func() {
		stop()
		must(n.t, <-ended)
	})
}
