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
	cmd := r.verb("publish TYPE", "Publish an event to a tenant's subscribers", cobra.ExactArgs(1), func(cmd *cobra.Command, s *session, args []string) error {
		raw, err := readData(cmd, data)
		if err != nil {
			return input.Usage(err)
		}
		around, err := b.read(document{"event_type": args[0]})
		if err != nil {
			return err
		}
		x, err := s.PublishEventFrom(cmd.Context(), s.tenant, client.PublishEventParams{}, withData(around, raw), s.keep())
		if err != nil {
			return err
		}
		return s.answer(func(w io.Writer) error { return showPublished(w, x) })
	})
	cmd.Long = cmd.Short + `. Its data is sent as it is
written, to the byte.` + callHelp
	cmd.Example = `  eventhook publish payment.succeeded --data '{"amount":42}'
  eventhook publish order.made --data @order.json --idempotency-key order-7
  jq .order big.json | eventhook publish order.made --data - --metadata '{"shop":"north"}'`
	b = &body{cmd: cmd}
	cmd.Flags().StringVar(&data, "data", "", "the event's data: JSON, @FILE with it, or - for standard input")
	b.text("idempotency-key", "idempotency_key", "a second event with this key makes nothing, as long as events are kept")
	b.json("metadata", "metadata", `an object that subscribers are told, such as {"shop":"north"}`)
	b.json("scope", "scope", "JSON: what it is about")
	b.json("actor", "actor", "JSON: who has caused it")
	b.text("correlation-id", "correlation_id", "shared by what belongs together")
	r.addTo(cmd.Flags())
	return cmd
}

// readData reads the data that a flag gives.
func readData(cmd *cobra.Command, text string) (json.RawMessage, error) {
	var err error
	switch {
	case text == "":
		return nil, errors.New("what data? --data takes JSON, @FILE or - for standard input")
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

// withData puts data into an object that has other members, as it is written.
func withData(around, data json.RawMessage) json.RawMessage {
	open := around[:len(around)-1]
	return append(append(append(open, `,"data":`...), data...), '}')
}

func showPublished(w io.Writer, x client.EventPublished) error {
	what := "Published"
	if x.Duplicate != nil && *x.Duplicate {
		what = "Nothing was published: its key is that of an earlier event,"
	}
	to := "subscribers"
	if x.Deliveries == 1 {
		to = "subscriber"
	}
	_, err := fmt.Fprintf(w, "%s %s, to %d %s\nWhat becomes of it: eventhook event get %[2]s\n", what, x.EventID, x.Deliveries, to)
	return err
}
