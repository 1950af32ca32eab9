package cli

import (
	"context"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/cli/input"
	"github.com/eventhook/eventhook/internal/cli/terminal"
)

func newPromise(version string) *cobra.Command {
	r := &remote{version: version, ofTenant: true}
	return newNoun("promise", "Create, list, show, resolve and reject promises", `Create, list, show, resolve and reject promises, for which workflows wait. The API
key needs the scope work.

  eventhook promise create stripe:pi_3PX --timeout 1h
  eventhook promise get 0199… --wait 30s
  eventhook promise resolve 0199… --value '{"amount":4200}'
  eventhook promise reject 0199… 'card declined'

Statuses: pending, resolved, rejected, expired.`, r,
		newPromiseCreate(r), newPromiseList(r), newPromiseGet(r), newPromiseResolve(r), newPromiseReject(r))
}

var promiseColumns = []column[client.Promise]{
	{"ID", func(p client.Promise) string { return p.ID }},
	{"CREATED", func(p client.Promise) string { return terminal.Time(p.CreatedAt) }},
	{"KEY", func(p client.Promise) string { return p.IdempotencyKey }},
	{"STATUS", func(p client.Promise) string { return string(p.Status) }},
	{"EXPIRES", func(p client.Promise) string { return timeOr(p.ExpiresAt, "") }},
	{"SETTLED", func(p client.Promise) string { return timeOr(p.SettledAt, "") }},
	{"WORKFLOW", func(p client.Promise) string { return textOf(p.WorkflowExecutionID) }},
	{"ERROR", func(p client.Promise) string { return textOf(p.Error) }},
}

func newPromiseList(r *remote) *cobra.Command {
	var f listFlags
	var key string
	cmd := r.verb("list", "List promises, newest first", cobra.NoArgs, func(cmd *cobra.Command, s *session, _ []string) error {
		params := client.ListPromisesParams{IdempotencyKey: optionalFlag(key)}
		return printList(s, &f, func(limit *int64, cursor *string) ([]client.Promise, *string, error) {
			params.Limit, params.Cursor = limit, cursor
			p, err := s.ListPromises(cmd.Context(), s.tenant, params, s.keepBody())
			return p.Items, p.NextCursor, err
		}, promiseColumns)
	})
	cmd.Flags().StringVar(&key, "idempotency-key", "", "only the promise with this idempotency key")
	f.addTo(cmd)
	return cmd
}

func newPromiseGet(r *remote) *cobra.Command {
	var wait time.Duration
	cmd := r.verb("get ID|latest", "Show a promise and its value", cobra.ExactArgs(1),
		func(cmd *cobra.Command, s *session, args []string) error {
			id, err := s.promiseID(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			var params client.GetPromiseParams
			if wait > 0 {
				params.WaitSeconds = new(int64(wait / time.Second))
			}
			return s.showPromise(s.GetPromise(cmd.Context(), s.tenant, id, params, s.keepBody()))
		})
	input.DurationVar(cmd.Flags(), &wait, "wait", 0, "how long to wait until it is settled, up to 60s")
	return cmd
}

func newPromiseCreate(r *remote) *cobra.Command {
	var workflow string
	var timeout time.Duration
	cmd := r.verb("create KEY", "Create a promise with an idempotency key", cobra.ExactArgs(1),
		func(cmd *cobra.Command, s *session, args []string) error {
			request := client.CreatePromiseRequest{IdempotencyKey: args[0], WorkflowExecutionID: optionalFlag(workflow)}
			if timeout > 0 {
				request.TimeoutSeconds = new(int64(timeout / time.Second))
			}
			return s.showPromise(s.CreatePromise(cmd.Context(), s.tenant, request, s.keepBody()))
		})
	cmd.Long = cmd.Short + `. If the tenant has a promise with this key, the
command shows it.`
	cmd.Flags().StringVar(&workflow, "workflow", "", "id of the workflow that waits for it")
	input.DurationVar(cmd.Flags(), &timeout, "timeout", 0, "how long until it expires, such as 24h; it does not expire by default")
	return cmd
}

func newPromiseResolve(r *remote) *cobra.Command {
	var value string
	cmd := r.verb("resolve ID|latest", "Resolve a promise with a value", cobra.ExactArgs(1),
		func(cmd *cobra.Command, s *session, args []string) error {
			object := []byte(`{"value":null}`)
			if value != "" {
				raw, err := readInput(cmd, value)
				if err != nil {
					return input.Usagef("--value: %w", err)
				}
				if object, err = withMember(object, "value", raw); err != nil {
					return err
				}
			}
			id, err := s.promiseID(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return s.showPromise(s.ResolvePromiseFrom(cmd.Context(), s.tenant, id, object, s.keepBody()))
		})
	cmd.Flags().StringVar(&value, "value", "", "value: JSON, @FILE, or - for standard input; null by default")
	return cmd
}

func newPromiseReject(r *remote) *cobra.Command {
	return r.verb("reject ID|latest ERROR", "Reject a promise with an error", cobra.ExactArgs(2),
		func(cmd *cobra.Command, s *session, args []string) error {
			id, err := s.promiseID(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return s.showPromise(s.RejectPromise(cmd.Context(), s.tenant, id, client.RejectRequest{Error: args[1]}, s.keepBody()))
		})
}

// promiseID returns arg, or the id of the newest promise if arg is latest.
func (s *session) promiseID(ctx context.Context, arg string) (string, error) {
	return latestID(arg, "promises", func(limit *int64, _ *string) ([]client.Promise, *string, error) {
		p, err := s.ListPromises(ctx, s.tenant, client.ListPromisesParams{Limit: limit})
		return p.Items, nil, err
	}, func(x client.Promise) string { return x.ID })
}

func (s *session) showPromise(p client.Promise, err error) error {
	if err != nil {
		return err
	}
	return s.answer(func(w io.Writer) error {
		return printFields(w, field{"promise", p.ID}, field{"key", p.IdempotencyKey}, field{"status", string(p.Status)},
			field{"workflow", textOf(p.WorkflowExecutionID)},
			field{"created", terminal.Time(p.CreatedAt)}, field{"expires", timeOr(p.ExpiresAt, "")},
			field{"settled", timeOr(p.SettledAt, "")},
			field{"value", inline(p.Value)}, field{"error", textOf(p.Error)})
	})
}
