package cli

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/eventhook/eventhook/client"
)

func newExpression(version string) *cobra.Command {
	r := &remote{version: version, ofTenant: true}
	cmd := &cobra.Command{Use: "expression", Short: "Test filters and transforms"}
	cmd.AddCommand(newExpressionTest(r))
	r.addTo(cmd.PersistentFlags())
	return cmd
}

func newExpressionTest(r *remote) *cobra.Command {
	var b *body
	cmd := r.verb("test", "Test a filter or a transform with a payload, without effects", cobra.NoArgs,
		func(cmd *cobra.Command, s *session, _ []string) error {
			object, err := b.read(nil)
			if err != nil {
				return err
			}
			result, err := s.TestExpressionFrom(cmd.Context(), s.tenant, object, s.keepBody())
			if err != nil {
				return err
			}
			return s.answer(func(w io.Writer) error { return showExpression(w, result) })
		})
	cmd.Example = `  eventhook expression test --filter '{"body.amount":{"$gte":10}}' --body '{"amount":7}'
  eventhook expression test --filter-expression 'body.amount > 10' --body @order.json
  eventhook expression test --transform 'jmespath:{id: data.object.id}' --body @event.json`
	b = newBody(cmd)
	b.json("filter", "filter", `pattern filter, such as {"body.amount":{"$gte":10}}`)
	b.code("filter-expression", "filter_expression", "CEL, such as body.livemode && body.amount > 100")
	b.code("filter-function", "filter_function", "JavaScript: function filter(event)")
	b.transform()
	b.text("event-type", "event_type", "event type that the expression reads")
	b.json("headers", "headers", `headers of the payload, such as {"X-Env":"prod"}`)
	b.json("body", "body", "payload as JSON")
	return cmd
}

func showExpression(w io.Writer, x client.ExpressionResult) error {
	if x.Error != nil {
		_, err := fmt.Fprintf(w, "Not evaluated: %s\n", *x.Error)
		return err
	}
	if x.Matched != nil {
		verdict := map[bool]string{true: "Matches", false: "Does not match"}[*x.Matched]
		if _, err := fmt.Fprintf(w, "%s: %s\n", verdict, x.Reason); err != nil {
			return err
		}
	}
	if x.Output == nil {
		return nil
	}
	raw, err := json.MarshalIndent(x.Output, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s\n", raw)
	return err
}
