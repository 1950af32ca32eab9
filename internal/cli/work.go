package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/cli/input"
	"github.com/eventhook/eventhook/internal/cli/terminal"
)

func newWork(version string) *cobra.Command {
	r := &remote{version: version, ofTenant: true}
	return newNoun("work", "Start, list, show, claim, retry and cancel tasks and workflows", `Start, list, show, claim, retry and cancel tasks and workflows. The API key needs
the scope work.

  eventhook work list --status dead                 what is dead?
  eventhook work get 0199…                          its input, state, output and error
  eventhook work retry 0199…                        again, with all attempts
  eventhook work create task send-invoice --input '{"id":7}' --idempotency-key invoice-7
  eventhook work claim --queue mail --max 1         lease work, for a worker by hand

Statuses: `+strings.Join(workStatuses, ", ")+".", r,
		newWorkCreate(r), newWorkList(r), newWorkGet(r), newWorkClaim(r),
		newWorkChange(r, "retry", "Retry failed, dead or cancelled work", (*client.Client).RetryWork),
		newWorkChange(r, "cancel", "Cancel work that has not ended", (*client.Client).CancelWork))
}

var workStatuses = []string{"pending", "running", "completed", "failed", "dead", "suspended", "cancelled"}

var workColumns = []column[client.Execution]{
	{"ID", func(x client.Execution) string { return x.ID }},
	{"CREATED", func(x client.Execution) string { return terminal.Time(x.CreatedAt) }},
	{"TYPE", func(x client.Execution) string { return string(x.Type) }},
	{"KIND", func(x client.Execution) string { return x.Kind }},
	{"QUEUE", func(x client.Execution) string { return x.Queue }},
	{"STATUS", func(x client.Execution) string { return string(x.Status) }},
	{"ATTEMPT", func(x client.Execution) string { return fmt.Sprintf("%d of %d", x.Attempt, x.MaxAttempts) }},
	{"DUE", func(x client.Execution) string { return timeOr(x.DueAt, "") }},
	{"ERROR", func(x client.Execution) string { return textOf(x.Error) }},
}

func newWorkList(r *remote) *cobra.Command {
	var f listFlags
	var typ, status, kind, queue string
	cmd := r.verb("list", "List work, newest first", cobra.NoArgs, func(cmd *cobra.Command, s *session, _ []string) error {
		params := client.ListWorkParams{Type: optionalFlag(client.ExecutionType(typ)), Status: optionalFlag(client.ExecutionStatus(status)),
			Kind: optionalFlag(kind), Queue: optionalFlag(queue)}
		return printList(s, &f, func(limit *int64, cursor *string) ([]client.Execution, *string, error) {
			params.Limit, params.Cursor = limit, cursor
			p, err := s.ListWork(cmd.Context(), s.tenant, params, s.keepBody())
			return p.Items, p.NextCursor, err
		}, workColumns)
	})
	cmd.Flags().StringVar(&typ, "type", "", "type: task or workflow")
	cmd.Flags().StringVar(&status, "status", "", "status: "+strings.Join(workStatuses, ", "))
	cmd.Flags().StringVar(&kind, "kind", "", "kind of the task or workflow")
	cmd.Flags().StringVar(&queue, "queue", "", "queue")
	f.addTo(cmd)
	cmd.Example = `  eventhook work list --status dead
  eventhook work list --queue mail --kind send-invoice --all -o json`
	return cmd
}

func newWorkGet(r *remote) *cobra.Command {
	return r.verb("get ID|latest", "Show work with its input, state and output", cobra.ExactArgs(1),
		func(cmd *cobra.Command, s *session, args []string) error {
			id, err := s.workID(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return s.showWork(s.GetWork(cmd.Context(), s.tenant, id, s.keepBody()))
		})
}

// newWorkChange returns a command that changes one execution.
func newWorkChange(r *remote, verb, short string, change func(*client.Client, context.Context, string, string,
	...client.CallOption) (client.Execution, error)) *cobra.Command {
	return r.verb(verb+" ID|latest", short, cobra.ExactArgs(1), func(cmd *cobra.Command, s *session, args []string) error {
		id, err := s.workID(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		return s.showWork(change(s.Client, cmd.Context(), s.tenant, id, s.keepBody()))
	})
}

// workID returns arg, or the id of the newest execution if arg is latest.
func (s *session) workID(ctx context.Context, arg string) (string, error) {
	return latestID(arg, "executions", func(limit *int64, _ *string) ([]client.Execution, *string, error) {
		p, err := s.ListWork(ctx, s.tenant, client.ListWorkParams{Limit: limit})
		return p.Items, nil, err
	}, func(x client.Execution) string { return x.ID })
}

func (s *session) showWork(x client.Execution, err error) error {
	if err != nil {
		return err
	}
	return s.answer(func(w io.Writer) error {
		err := printFields(w, field{"work", x.ID}, field{"type", string(x.Type)}, field{"kind", x.Kind}, field{"queue", x.Queue},
			field{"status", string(x.Status)},
			field{"attempt", fmt.Sprintf("%d of %d", x.Attempt, x.MaxAttempts)}, field{"priority", strconv.FormatInt(x.Priority, 10)},
			field{"event", textOf(x.EventID)},
			field{"idempotency key", textOf(x.IdempotencyKey)}, field{"trace", x.TraceID},
			field{"created", terminal.Time(x.CreatedAt)}, field{"due", timeOr(x.DueAt, "")},
			field{"completed", timeOr(x.CompletedAt, "")}, field{"error", textOf(x.Error)}, field{"input", inline(x.Input)},
			field{"state", inline(x.State)},
			field{"output", inline(x.Output)})
		if err != nil || len(x.Promises) == 0 {
			return err
		}
		_, _ = fmt.Fprintln(w)
		return printTable(w, promiseColumns, x.Promises, false)
	})
}

func newWorkCreate(r *remote) *cobra.Command {
	var b *body
	var data, traceparent string
	var in time.Duration
	cmd := r.verb("create task|workflow KIND", "Start a task or a workflow without a webhook", cobra.ExactArgs(2),
		func(cmd *cobra.Command, s *session, args []string) error {
			preset := document{"type": args[0], "kind": args[1], "input": nil}
			if in != 0 {
				preset["run_at"] = time.Now().Add(in).UTC().Format(time.RFC3339Nano)
			}
			object, err := b.read(preset)
			if err != nil {
				return err
			}
			if data != "" {
				raw, err := readInput(cmd, data)
				if err != nil {
					return input.Usage(err)
				}
				if object, err = withMember(object, "input", raw); err != nil {
					return err
				}
			}
			return s.showWork(s.StartWorkFrom(cmd.Context(), s.tenant, client.StartWorkParams{Traceparent: optionalFlag(traceparent)},
				object, s.keepBody()))
		})
	cmd.Long = cmd.Short + `. Workers claim it like the
work of routes. If the idempotency key was used for the same type and kind within
a day, nothing is started, and the existing work is shown.`
	cmd.Example = `  eventhook work create task send-invoice --input '{"id":7}' --idempotency-key invoice-7
  eventhook work create workflow collect --queue payments --input @order.json --in 2h --priority 10`
	b = &body{cmd: cmd}
	cmd.Flags().StringVar(&data, "input", "", "input: JSON, @FILE, or - for standard input; null by default")
	cmd.Flags().StringVar(&traceparent, "traceparent", "", "W3C trace context of the work")
	input.DurationVar(cmd.Flags(), &in, "in", 0, "how long from now the work is due, such as 2h; or --run-at")
	b.text("queue", "queue", "queue; the queue named default by default")
	b.text("idempotency-key", "idempotency_key", "idempotency key")
	b.number("priority", "priority", "priority, -100 to 100; higher is claimed first, by a minute per step")
	b.text("run-at", "run_at", "time at which the work is due, such as 2026-03-01T00:00:00Z")
	b.number("max-attempts", "max_attempts", "maximum number of attempts, 1 to 100; 4 by default")
	return cmd
}

// readInput returns the JSON of the flag --input.
func readInput(cmd *cobra.Command, text string) (json.RawMessage, error) {
	raw, err := readData(cmd, text)
	if err != nil {
		return nil, errors.New(strings.Replace(err.Error(), "--data", "--input", 1))
	}
	return raw, nil
}

// withMember sets a member of an object, byte for byte.
func withMember(object json.RawMessage, name string, value json.RawMessage) (json.RawMessage, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(object, &members); err != nil {
		return nil, err
	}
	members[name] = value
	return json.Marshal(members)
}

var claimedColumns = []column[client.WorkItem]{
	{"ID", func(x client.WorkItem) string { return x.ID }},
	{"TYPE", func(x client.WorkItem) string { return string(x.Type) }},
	{"KIND", func(x client.WorkItem) string { return x.Kind }},
	{"ATTEMPT", func(x client.WorkItem) string { return strconv.FormatInt(x.Attempt, 10) }},
	{"LEASE TOKEN", func(x client.WorkItem) string { return strconv.FormatInt(x.LeaseToken, 10) }},
	{"LEASE UNTIL", func(x client.WorkItem) string { return terminal.Time(x.LeaseUntil) }},
	{"INPUT", func(x client.WorkItem) string { return inline(x.Input) }},
}

func newWorkClaim(r *remote) *cobra.Command {
	var queue string
	var kinds []string
	var maxCount int64
	var wait, lease time.Duration
	cmd := r.verb("claim", "Lease due work of a queue", cobra.NoArgs, func(cmd *cobra.Command, s *session, _ []string) error {
		seconds := func(d time.Duration) *int64 { return new(int64(d / time.Second)) }
		request := client.ClaimRequest{Queue: &queue, Max: &maxCount, WaitSeconds: seconds(wait), LeaseSeconds: seconds(lease)}
		if len(kinds) > 0 {
			request.Kinds = kinds
		}
		claimed, err := s.ClaimWork(cmd.Context(), s.tenant, request, s.keepBody())
		if err != nil {
			return err
		}
		return s.answer(func(w io.Writer) error {
			if len(claimed.Items) == 0 {
				s.Say("No work is due in the queue " + cmp.Or(queue, "default") + ".")
				return nil
			}
			return printTable(w, claimedColumns, claimed.Items, false)
		})
	})
	cmd.Long = cmd.Short + `, as a worker does. Complete it, or report
a failure, through the API with its lease token (-o json prints the whole answer).
When the lease expires, other workers can claim the work, and one attempt is used up.`
	flags := cmd.Flags()
	flags.StringVar(&queue, "queue", "default", "queue")
	flags.StringSliceVar(&kinds, "kind", nil, "claim only these kinds")
	flags.Int64Var(&maxCount, "max", 1, "maximum number of executions, up to 250")
	input.DurationVar(flags, &wait, "wait", 0, "how long to wait for work, up to 60s")
	input.DurationVar(flags, &lease, "lease", 30*time.Second, "duration of the lease, 1s to 1h")
	return cmd
}
