package console

import (
	"cmp"
	"net/http"
	"net/url"

	"github.com/eventhook/eventhook/client"
)

var workFormFields = []string{"type", "kind", "queue", "input", "priority", "run_at", "max_attempts", "idempotency_key"}

// workForm is the data of the form that starts work.
type workForm struct {
	Form  form
	Types []string
}

func (c *Console) newWork(r *request) (view, error) {
	q := r.URL.Query()
	f := r.formOf(url.Values{"type": {cmp.Or(q.Get("type"), "task")}, "kind": {q.Get("kind")}, "queue": {q.Get("queue")}, "input": {"{}"}}, workFormFields...)
	return view{Title: "Start work", Data: workForm{f, workTypes}}, nil
}

func (c *Console) startWork(r *request) (view, error) {
	if err := r.ParseForm(); err != nil {
		return view{}, err
	}
	f := r.formOf(nil, workFormFields...)
	body := client.WorkStart{Type: client.WorkStartType(f.Get("type")), Kind: f.Get("kind"), Queue: f.text("queue"), Input: f.json("input"),
		Priority: f.integer("priority"), RunAt: f.time("run_at"), MaxAttempts: f.integer("max_attempts"), IdempotencyKey: f.text("idempotency_key")}
	refused := view{Title: "Start work", Status: http.StatusUnprocessableEntity}
	if f.isReadable() {
		started, err := r.api.StartWork(r.detached(), r.tenant, client.StartWorkParams{}, body)
		if err == nil {
			return redirect(r.executionPath(started.ID), "The "+string(started.Type)+" is started. An idempotency key that was used today shows the first execution.")
		}
		if !f.refuse(err) {
			return view{}, err
		}
	}
	refused.Data = workForm{f, workTypes}
	return refused, nil
}
