package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/cli/input"
)

func newPublish(version string) *cobra.Command {
	r := &remote{version: version, ofTenant: true}
	var b *body
	var data string
	cmd := r.verb("publish TYPE", "Publish an event to the subscriptions of a tenant", cobra.ExactArgs(1), func(cmd *cobra.Command, s *session, args []string) error {
		raw, err := readData(cmd, data)
		if err != nil {
			return input.Usage(err)
		}
		object, err := b.read(document{"event_type": args[0]})
		if err != nil {
			return err
		}
		x, err := s.PublishEventFrom(cmd.Context(), s.tenant, client.PublishEventParams{}, withData(object, raw), s.keepBody())
		if err != nil {
			return err
		}
		return s.answer(func(w io.Writer) error { return showPublished(w, x) })
	})
	cmd.Long = cmd.Short + `. The data is
delivered byte for byte.` + callHelp
	cmd.Example = `  eventhook publish payment.succeeded --data '{"amount":42}'
  eventhook publish order.made --data @order.json --idempotency-key order-7
  jq .order big.json | eventhook publish order.made --data - --metadata '{"shop":"north"}'`
	b = &body{cmd: cmd}
	cmd.Flags().StringVar(&data, "data", "", "data of the event: JSON, @FILE, or - for standard input")
	b.text("idempotency-key", "idempotency_key", "idempotency key; while an event with this key is stored, a second one is not published")
	b.json("metadata", "metadata", `object that is delivered beside the data, such as {"shop":"north"}`)
	b.json("scope", "scope", "JSON value for the object that the event is about")
	b.json("actor", "actor", "JSON value for the actor that caused the event")
	b.text("correlation-id", "correlation_id", "id shared by related events")
	b.text("source", "source", "system from which the event comes")
	b.text("category", "category", "category of the event; by default the category of its type in the catalogue")
	r.addTo(cmd.Flags())
	return cmd
}

// readData returns the data of the event, for a value of --data.
func readData(cmd *cobra.Command, text string) (json.RawMessage, error) {
	var err error
	switch {
	case text == "":
		return nil, errors.New("--data is required: JSON, @FILE, or - for standard input")
	case text == "-":
		var raw []byte
		raw, err = io.ReadAll(cmd.InOrStdin())
		text = string(raw)
	default:
		text, err = input.TextOrFile(text)
	}
	if err != nil {
		return nil, fmt.Errorf("--data: %w", err)
	}
	if _, err := parseJSON([]byte(text)); err != nil {
		return nil, fmt.Errorf("--data is not JSON: %w", err)
	}
	return json.RawMessage(text), nil
}

// withData adds the member data to an object, byte for byte.
func withData(object, data json.RawMessage) json.RawMessage {
	open := object[:len(object)-1]
	return append(append(append(open, `,"data":`...), data...), '}')
}

func showPublished(w io.Writer, x client.EventPublished) error {
	result := "Published"
	if x.Duplicate != nil && *x.Duplicate {
		result = "Not published: the idempotency key is that of the earlier event"
	}
	to := "subscriptions"
	if x.Deliveries == 1 {
		to = "subscription"
	}
	_, err := fmt.Fprintf(w, "%s %s, to %d %s\nTo show its deliveries: eventhook event get %[2]s\n", result, x.EventID, x.Deliveries, to)
	return err
}
