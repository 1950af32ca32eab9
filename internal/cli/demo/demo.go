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

// Start starts a gateway with a private PostgreSQL in the folder dir. The
// gateway listens at free ports of this host, may deliver to the network
// allowedCIDR, and has the tenant acme with the sources github and stripe.
type Start func(ctx context.Context, dir, allowedCIDR string) (*Gateway, error)

// Gateway is a gateway that is configured and does not serve yet.
type Gateway struct {
	URL      string
	AdminKey string
	Secrets  map[string]string // of the sources, by provider

	// Run serves until ctx ends. It calls ready when requests are served.
	Run func(ctx context.Context, ready func()) error
}

// New returns the command. It calls start for a gateway.
func New(start Start) *cobra.Command {
	return &cobra.Command{
		Use:   "demo",
		Short: "Demonstrate the gateway end to end, in seconds",
		Long: `Start a gateway with a private PostgreSQL on free ports, send it signed, forged
and duplicate webhooks, claim and complete their work, publish an event, receive it
as a subscriber, and print each step. The command fails at the first unexpected
result. It removes all its data at the end.`,
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
	steps := &timeline{w: w, start: time.Now()}
	steps.print("starting a gateway with a private PostgreSQL")
	g, err := start(ctx, dir, demoLoopback)
	if err != nil {
		return err
	}
	serving, stop := context.WithCancel(ctx)
	ready, stopped := make(chan struct{}), make(chan error, 1)
	go func() { stopped <- g.Run(serving, func() { close(ready) }) }()
	<-ready
	steps.print("ready at %s, tenant acme with the sources github and stripe", g.URL)
	err = (&demo{timeline: steps, client: &client{url: g.URL, key: g.AdminKey, secrets: g.Secrets}}).run(ctx)
	stop()
	err = errors.Join(err, <-stopped)
	if err == nil {
		steps.print("all steps succeeded")
	}
	return err
}

// demoFolder creates the folder of the gateway. PostgreSQL may run as another
// user, who must be able to enter the folder.
func demoFolder() (string, error) {
	dir, err := os.MkdirTemp("", "eventhook-demo-")
	if err != nil {
		return "", fmt.Errorf("demo folder: %w", err)
	}
	return dir, os.Chmod(dir, 0o711) //nolint:gosec // the files in it are not readable by others
}

// timeline prints the steps of the demo with their time since its start.
type timeline struct {
	w     io.Writer
	start time.Time
}

func (t *timeline) print(format string, args ...any) {
	_, _ = fmt.Fprintf(t.w, "%6.2fs  %s\n", time.Since(t.start).Seconds(), fmt.Sprintf(format, args...))
}

// demo runs the steps. A step fails if its result is not the expected one.
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

// demoPayment is the id of the payment that the workflow waits for.
const demoPayment = "pi_3PExampleOrder1001"

func (d *demo) workflowSuspends(ctx context.Context) (id string, err error) {
	created := send.Sample{Provider: "stripe", EventType: "payment_intent.created", PaymentID: demoPayment}
	if _, err := d.expect(ctx, created, "", 200, "accepted"); err != nil {
		return "", err
	}
	d.print("stripe    payment_intent.created, signed: 200 accepted")
	item, err := d.claim(ctx, "payments")
	if err != nil {
		return "", err
	}
	d.print("worker    claimed the workflow %s", item.Kind)
	var promise struct{ ID string }
	err = d.client.call(ctx, "POST", "/promises", map[string]any{"idempotency_key": "stripe:" + demoPayment, "workflow_execution_id": item.ID}, 201, &promise)
	if err != nil {
		return "", err
	}
	err = d.client.call(ctx, "POST", "/work/"+item.ID+"/suspend",
		map[string]any{"lease_token": item.LeaseToken, "state": map[string]any{"step": "await payment"}, "await": []string{promise.ID}}, 200, nil)
	d.print("worker    created a promise for stripe:%s and suspended the workflow", demoPayment)
	return item.ID, err
}

func (d *demo) pushBecomesTask(ctx context.Context) error {
	push := send.Sample{Provider: "github", ID: "72d3162e-cc78-11e3-81ab-4c9367dc0958"}
	first, err := d.expect(ctx, push, "", 200, "accepted")
	if err != nil {
		return err
	}
	d.print("github    push, signed: 200 accepted")
	duplicate, err := d.expect(ctx, push, "", 200, "duplicate")
	if err != nil {
		return err
	}
	if duplicate.DuplicateOf != first.EventID {
		return fmt.Errorf("the answer names the event %q as the original, want %q", duplicate.DuplicateOf, first.EventID)
	}
	d.print("github    same push: 200 duplicate, not processed")
	if _, err := d.expect(ctx, send.Sample{Provider: "github"}, "wrong secret", 401, ""); err != nil {
		return err
	}
	d.print("attacker  forged push: 401, not stored")
	item, err := d.claim(ctx, "ci")
	if err != nil {
		return err
	}
	var input struct{ Ref string }
	if err := json.Unmarshal(item.Input, &input); err != nil || input.Ref != "refs/heads/main" {
		return fmt.Errorf("the input of the task is not the push: %s", item.Input)
	}
	d.print("worker    claimed the task %s for %s", item.Kind, input.Ref)
	err = d.client.call(ctx, "POST", "/work/"+item.ID+"/complete",
		map[string]any{"lease_token": item.LeaseToken, "output": map[string]any{"built": true}}, 200, nil)
	if err != nil {
		return err
	}
	d.print("worker    completed the task")
	return d.checkOneTask(ctx, first.EventID)
}

// checkOneTask fails unless the three pushes created one task, for the first push.
func (d *demo) checkOneTask(ctx context.Context, event string) error {
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
	d.print("stripe    payment_intent.succeeded, signed: 200 accepted")
	item, err := d.claim(ctx, "payments")
	if err != nil {
		return err
	}
	if item.ID != workflow || len(item.Promises) != 1 || item.Promises[0].Status != "resolved" {
		return fmt.Errorf("want workflow %s resumed by its promise, got %+v", workflow, item)
	}
	var payment struct{ Amount int }
	if err := json.Unmarshal(item.Promises[0].Value, &payment); err != nil || payment.Amount != 4200 {
		return fmt.Errorf("the value of the promise is not the payment: %s", item.Promises[0].Value)
	}
	d.print("worker    the promise is resolved: the workflow continues from %s with amount %d", item.State, payment.Amount)
	err = d.client.call(ctx, "POST", "/work/"+item.ID+"/complete", map[string]any{"lease_token": item.LeaseToken}, 200, nil)
	if err == nil {
		d.print("worker    completed the workflow")
	}
	return err
}

// expect sends a sample and fails unless the answer has this code and status. The
// sample is signed with secret, or with the secret of the source if it is "".
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

// claim waits for one task or workflow of a queue and claims it.
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
