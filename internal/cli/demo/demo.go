package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/eventhook/eventhook/internal/cli/send"
	"github.com/eventhook/eventhook/internal/pgembed"
)

// demoStart starts a gateway with a private PostgreSQL in the folder dir. The
// gateway listens at free ports of this host, may deliver to the network
// allowedCIDR, and has the tenant acme with the sources github and stripe.
type Start func(ctx context.Context, dir, allowedCIDR string) (*Gateway, error)

// demoGateway is a gateway that is configured and does not serve yet.
type Gateway struct {
	URL      string
	AdminKey string
	Secrets  map[string]string // of the sources, by provider

	// Run serves until ctx ends. It calls ready when requests are served.
	Run func(ctx context.Context, ready func()) error
}

func New(start Start) *cobra.Command {
	return &cobra.Command{
		Use:   "demo",
		Short: "Show the main job end to end, on a gateway of its own, in seconds",
		Long: `Start a gateway with a private PostgreSQL on free ports, send it signed,
forged and repeated webhooks, be the worker, publish an event and be its
subscriber, and print what happens. Succeeds only if all of it happened. Leaves
nothing behind.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runDemo(cmd.Context(), start, cmd.OutOrStdout()) },
	}
}

func runDemo(ctx context.Context, start Start, w io.Writer) (err error) {
	const timeout = 60 * time.Second
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	dir, err := demoFolder()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pgembed.Discard(dir)) }()
	story := &timeline{w: w, began: time.Now()}
	story.tell("starting a gateway with a private PostgreSQL")
	g, err := start(ctx, dir, demoLoopback)
	if err != nil {
		return err
	}
	serving, stop := context.WithCancel(ctx)
	ready, stopped := make(chan struct{}), make(chan error, 1)
	go func() { stopped <- g.Run(serving, func() { close(ready) }) }()
	<-ready
	story.tell("ready at %s, tenant acme with the sources github and stripe", g.URL)
	err = (&demo{timeline: story, client: &client{url: g.URL, key: g.AdminKey, secrets: g.Secrets}}).run(ctx)
	stop()
	err = errors.Join(err, <-stopped)
	if err == nil {
		story.tell("all of it happened")
	}
	return err
}

// demoFolder creates the folder of the gateway. The user of PostgreSQL may be
// another one than this process's and must be able to enter it.
func demoFolder() (string, error) {
	dir, err := os.MkdirTemp("", "eventhook-demo-")
	if err != nil {
		return "", fmt.Errorf("demo folder: %w", err)
	}
	return dir, os.Chmod(dir, 0o711) //nolint:gosec // the files in it are not readable by others
}

// timeline prints what happens and when.
type timeline struct {
	w     io.Writer
	began time.Time
}

func (t *timeline) tell(format string, args ...any) {
	_, _ = fmt.Fprintf(t.w, "%6.2fs  %s\n", time.Since(t.began).Seconds(), fmt.Sprintf(format, args...))
}

// demo is the story. Each step fails if what it tells did not happen.
type demo struct {
	*timeline
	client *client
}

func (d *demo) run(ctx context.Context) error {
	workflow, err := d.workflowSuspends(ctx)
	if err != nil {
		return err
	}
	if err := d.pushBecomesTask(ctx); err != nil {
		return err
	}
	if err := d.paymentResumes(ctx, workflow); err != nil {
		return err
	}
	return d.publishedReachesSubscriber(ctx)
}

// demoPayment is the payment that the workflow waits for.
const demoPayment = "pi_3PExampleOrder1001"

func (d *demo) workflowSuspends(ctx context.Context) (id string, err error) {
	created := send.Sample{Provider: "stripe", EventType: "payment_intent.created", PaymentID: demoPayment}
	if _, err := d.expect(ctx, created, "", 200, "accepted"); err != nil {
		return "", err
	}
	d.tell("stripe    payment_intent.created, signed: 200 accepted")
	item, err := d.claim(ctx, "payments")
	if err != nil {
		return "", err
	}
	d.tell("worker    claimed the workflow %s", item.Kind)
	var promise struct{ ID string }
	err = d.client.call(ctx, "POST", "/promises", map[string]any{"idempotency_key": "stripe:" + demoPayment, "workflow_execution_id": item.ID}, 201, &promise)
	if err != nil {
		return "", err
	}
	err = d.client.call(ctx, "POST", "/work/"+item.ID+"/suspend",
		map[string]any{"lease_token": item.LeaseToken, "state": map[string]any{"step": "await payment"}, "await": []string{promise.ID}}, 200, nil)
	d.tell("worker    made a promise for stripe:%s and suspended the workflow", demoPayment)
	return item.ID, err
}

func (d *demo) pushBecomesTask(ctx context.Context) error {
	push := send.Sample{Provider: "github", ID: "72d3162e-cc78-11e3-81ab-4c9367dc0958"}
	first, err := d.expect(ctx, push, "", 200, "accepted")
	if err != nil {
		return err
	}
	d.tell("github    push, signed: 200 accepted")
	again, err := d.expect(ctx, push, "", 200, "duplicate")
	if err != nil {
		return err
	}
	if again.DuplicateOf != first.EventID {
		return fmt.Errorf("the duplicate is of %q, not of %q", again.DuplicateOf, first.EventID)
	}
	d.tell("github    the same push again: 200 duplicate, not processed")
	if _, err := d.expect(ctx, send.Sample{Provider: "github"}, "not the secret", 401, ""); err != nil {
		return err
	}
	d.tell("somebody  a forged push: 401, nothing stored")
	item, err := d.claim(ctx, "ci")
	if err != nil {
		return err
	}
	var input struct{ Ref string }
	if err := json.Unmarshal(item.Input, &input); err != nil || input.Ref != "refs/heads/main" {
		return fmt.Errorf("the task's input is not the push: %s", item.Input)
	}
	d.tell("worker    claimed the task %s for %s", item.Kind, input.Ref)
	err = d.client.call(ctx, "POST", "/work/"+item.ID+"/complete",
		map[string]any{"lease_token": item.LeaseToken, "output": map[string]any{"built": true}}, 200, nil)
	if err != nil {
		return err
	}
	d.tell("worker    completed it")
	return d.onlyOneTask(ctx, first.EventID)
}

// onlyOneTask holds that three pushes made one task, of the genuine first one.
func (d *demo) onlyOneTask(ctx context.Context, event string) error {
	var list struct {
		Items []struct {
			EventID string `json:"event_id"`
			Status  string
		}
	}
	if err := d.client.call(ctx, "GET", "/work?type=task", nil, 200, &list); err != nil {
		return err
	}
	if len(list.Items) != 1 || list.Items[0].EventID != event || list.Items[0].Status != "completed" {
		return fmt.Errorf("want one completed task of event %s, got %+v", event, list.Items)
	}
	return nil
}

func (d *demo) paymentResumes(ctx context.Context, workflow string) error {
	if _, err := d.expect(ctx, send.Sample{Provider: "stripe", PaymentID: demoPayment}, "", 200, "accepted"); err != nil {
		return err
	}
	d.tell("stripe    payment_intent.succeeded, signed: 200 accepted")
	item, err := d.claim(ctx, "payments")
	if err != nil {
		return err
	}
	if item.ID != workflow || len(item.Promises) != 1 || item.Promises[0].Status != "resolved" {
		return fmt.Errorf("want workflow %s resumed by its promise, got %+v", workflow, item)
	}
	var payment struct{ Amount int }
	if err := json.Unmarshal(item.Promises[0].Value, &payment); err != nil || payment.Amount != 4200 {
		return fmt.Errorf("the promise's value is not the payment: %s", item.Promises[0].Value)
	}
	d.tell("worker    the promise resolved: the workflow goes on from %s with amount %d", item.State, payment.Amount)
	err = d.client.call(ctx, "POST", "/work/"+item.ID+"/complete", map[string]any{"lease_token": item.LeaseToken}, 200, nil)
	if err == nil {
		d.tell("worker    completed the workflow")
	}
	return err
}

// expect sends a sample, signed with the source's secret or another one, and
// holds its answer.
func (d *demo) expect(ctx context.Context, s send.Sample, secret string, code int, status string) (a send.Answer, err error) {
	got, body, err := d.client.send(ctx, s, secret)
	if err == nil && got == http.StatusOK {
		err = json.Unmarshal(body, &a)
	}
	if err != nil {
		return a, err
	}
	if got != code || (status != "" && a.Status != status) {
		return a, fmt.Errorf("%s: want %d %s, got %d %s", s.Provider, code, status, got, a.Status)
	}
	return a, nil
}

// claim waits for one piece of work.
func (d *demo) claim(ctx context.Context, queue string) (claimedItem, error) {
	var got struct{ Items []claimedItem }
	err := d.client.call(ctx, "POST", "/work/claim", map[string]any{"queue": queue, "max": 1, "wait_seconds": 10}, 200, &got)
	if err != nil {
		return claimedItem{}, err
	}
	if len(got.Items) != 1 {
		return claimedItem{}, fmt.Errorf("no work in queue %s", queue)
	}
	return got.Items[0], nil
}
