package worker_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"time"

	"github.com/eventhook/eventhook/worker"
)

// Invoice is the input of the kinds send-invoice and collect.
type Invoice struct {
	ID       string `json:"id"`
	Customer string `json:"customer"`
	Amount   int    `json:"amount"`
}

func sendInvoice(_ context.Context, job *worker.Job, in Invoice) error {
	if in.Customer == "" {
		return worker.Permanent(errors.New("the invoice has no customer")) // no retry can help
	}
	fmt.Printf("sending %s to %s, once for job %s\n", in.ID, in.Customer, job.ID)
	job.Output = map[string]string{"sent_to": in.Customer}
	return nil
}

func collect(ctx context.Context, job *worker.Job, in Invoice) error {
	// The same key gives the same promise; a route settles it when Stripe says so.
	paid, err := job.MakePromise(ctx, "stripe:"+in.ID, 30*24*time.Hour)
	if err != nil {
		return err
	}
	if paid.Status == worker.Pending {
		return job.Suspend(nil, paid) // called again when it is settled
	}
	var payment struct{ Amount int }
	if err := paid.Read(&payment); err != nil {
		return worker.Permanent(err)
	}
	fmt.Printf("%s is paid: %d of %d\n", in.ID, payment.Amount, in.Amount)
	return nil
}

// work runs until ctx ends, such as that of signal.NotifyContext.
func work(ctx context.Context, tenantURL, key string) error {
	return worker.New(tenantURL, key, worker.WithConcurrency(4)).
		Handle("send-invoice", worker.Typed(sendInvoice)).
		Handle("collect", worker.Typed(collect)).
		Run(ctx)
}

func Example() {
	gateway := newGateway()
	server := httptest.NewServer(gateway)
	defer server.Close()
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	stopped := make(chan error)
	go func() { stopped <- work(ctx, server.URL+"/api/tenants/acme/eventhook", "ehk_acme") }()

	const invoice = `{"id":"in_1","customer":"Ada","amount":4200}`
	gateway.waitForStatus(ctx, gateway.add(worker.Task, "send-invoice", invoice), "completed")
	workflow := gateway.add(worker.Workflow, "collect", invoice)
	gateway.waitForStatus(ctx, workflow, "suspended")
	gateway.settle("stripe:in_1", worker.Resolved, `{"amount":4200}`)
	gateway.waitForStatus(ctx, workflow, "completed")

	stop()
	fmt.Println("stopped:", <-stopped)
	// Output:
	// sending in_1 to Ada, once for job 1
	// in_1 is paid: 4200 of 4200
	// stopped: <nil>
}
