package cli

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/cli/terminal"
)

func newSource(version string) *cobra.Command {
	r := &remote{version: version, ofTenant: true}
	return newNoun("source", "Create, list, update, test and delete sources of events", `Create, list, update, test and delete sources, which receive webhooks or consume
the messages of a broker. A source for a built-in provider needs only the secret;
eventhook source providers lists the providers.

  eventhook source create stripe --provider stripe --secret-env STRIPE_SECRET
  eventhook source create crm -f crm.yaml        with your own verifier
  eventhook source create orders --consume @kafka.json
  eventhook source update stripe --secret-env NEW_SECRET --secret-env OLD_SECRET
  eventhook source rejections stripe             recently rejected requests`, r,
		newSourceList(r), newSourceGet(r), newSourceURL(r), newSourceCreate(r), newSourceUpdate(r), newSourceDelete(r),
		newSourceTest(r), newSourceRejections(r), newSourceHandshake(r), newSourceProviders(r))
}

var sourceColumns = []column[client.Source]{
	{"SLUG", func(s client.Source) string { return s.Slug }},
	{"NAME", func(s client.Source) string { return s.Name }},
	{"VERIFIER", verifiedAs},
	{"ENABLED", func(s client.Source) string { return yesOrNo(s.IsEnabled) }},
	{"CONSUMER", consumerStatus},
	{"LAST HOUR", func(s client.Source) string { return strconv.FormatInt(s.Stats.EventsLastHour, 10) }},
	{"LAST 24H", func(s client.Source) string { return strconv.FormatInt(s.Stats.EventsLast24H, 10) }},
	{"FAILED 24H", func(s client.Source) string { return strconv.FormatInt(s.Stats.FailedLast24H, 10) }},
}

// consumerStatus returns whether a source consumes messages at present, "" if it receives webhooks.
func consumerStatus(s client.Source) string {
	if s.Consumer == nil {
		return ""
	}
	return string(s.Consumer.Status)
}

// verifiedAs returns the provider and scheme of a source, or the type of its own
// verifier.
func verifiedAs(s client.Source) string {
	if s.Provider == nil && s.Verifier != nil {
		return string(s.Verifier.Type)
	}
	return strings.Join(strings.Fields(textOf(s.Provider)+" "+textOf(s.Scheme)), "/")
}

func newSourceList(r *remote) *cobra.Command {
	var f listFlags
	cmd := r.verb("list", "List sources, newest first", cobra.NoArgs, func(cmd *cobra.Command, s *session, _ []string) error {
		return printList(s, &f, func(limit *int64, cursor *string) ([]client.Source, *string, error) {
			p, err := s.ListSources(cmd.Context(), s.tenant, client.ListSourcesParams{Limit: limit, Cursor: cursor}, s.keepBody())
			return p.Items, p.NextCursor, err
		}, sourceColumns)
	})
	f.addTo(cmd)
	return cmd
}

func (s *session) showSource(x client.Source, err error) error {
	if err != nil {
		return err
	}
	return s.answer(func(w io.Writer) error {
		fields := []field{{"slug", x.Slug}, {"name", x.Name}, {"description", textOf(x.Description)},
			{"receives at", receivesAt(x)}, {"consumes", inline(x.Consume)}, {"enabled", yesOrNo(x.IsEnabled)},
			{"verified as", verifiedAs(x)}, {"secrets", strconv.FormatInt(x.SecretsCount, 10)}, {"verifier", inline(x.Verifier)},
			{"options", inlineMap(x.Options)},
			{"idempotency key", strings.Join(x.IdempotencyKeyPaths, ", ")}, {"event type", strings.Join(x.EventTypePaths, ", ")},
			{"key required", yesOrNo(x.RequireIdempotencyKey)}, {"rate limit", inline(x.RateLimit)}, {"retries", inline(x.Retry)},
			{"allowed clients", strings.Join(x.AllowedIPRanges, ", ")}, {"maximum body", strconv.FormatInt(x.MaxBodyBytes, 10) + " bytes"},
			{"answer", inline(x.Response)}, {"id", x.ID}, {"updated", terminal.Time(x.UpdatedAt)},
			{"last hour", fmt.Sprintf("%d events", x.Stats.EventsLastHour)},
			{"last 24 hours", fmt.Sprintf("%d events, %d of them failed at least once", x.Stats.EventsLast24H, x.Stats.FailedLast24H)}}
		fields = append(fields, consumerFields(x.Consumer)...)
		for _, warning := range x.Warnings {
			fields = append(fields, field{"warning", warning})
		}
		return printFields(w, fields...)
	})
}

// receivesAt returns the URL for the sender, "" if the source consumes messages instead.
func receivesAt(s client.Source) string {
	if s.Consume != nil {
		return ""
	}
	return s.IngestURL
}

func consumerFields(c *client.Consumer) []field {
	if c == nil {
		return nil
	}
	fields := []field{{"consumer", string(c.Status) + " since " + terminal.Time(c.Since)}, {"reason", textOf(c.Error)}}
	if c.Lag != nil {
		fields = append(fields, field{"waiting", fmt.Sprintf("%d messages at the broker", *c.Lag)})
	}
	return fields
}

func newSourceGet(r *remote) *cobra.Command {
	return r.verb("get SLUG", "Show a source; its secrets are never shown", cobra.ExactArgs(1), func(cmd *cobra.Command, s *session, args []string) error {
		return s.showSource(s.GetSource(cmd.Context(), s.tenant, args[0], s.keepBody()))
	})
}

func newSourceURL(r *remote) *cobra.Command {
	return r.verb("url SLUG", "Print the URL to give to the provider", cobra.ExactArgs(1), func(cmd *cobra.Command, s *session, args []string) error {
		x, err := s.GetSource(cmd.Context(), s.tenant, args[0])
		if err != nil {
			return err
		}
		if x.Consume != nil {
			return fmt.Errorf("the source %s consumes messages and has no URL", x.Slug)
		}
		_, err = fmt.Fprintln(s.Out, x.IngestURL)
		return err
	})
}

func newSourceDelete(r *remote) *cobra.Command {
	var cascade bool
	cmd := r.verb("delete SLUG", "Delete a source; its events are kept", cobra.ExactArgs(1), func(cmd *cobra.Command, s *session, args []string) error {
		if err := s.DeleteSource(cmd.Context(), s.tenant, args[0], client.DeleteSourceParams{Cascade: &cascade}); err != nil {
			return err
		}
		s.Say("The source %s is deleted.", args[0])
		return nil
	})
	cmd.Flags().BoolVar(&cascade, "cascade", false, "delete its routes, too; without it, a source with routes or unprocessed events is not deleted")
	return deletes("source", cmd)
}
