package cli

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/cli/input"
	"github.com/eventhook/eventhook/internal/cli/terminal"
)

// testFlags describe a request that nobody sends.
type testFlags struct {
	headers                    []string
	method, url, bodyFile, now string
	event                      string
}

func newSourceTest(r *remote) *cobra.Command {
	var f testFlags
	cmd := r.verb("test SLUG", "Explain what a request would come to; nothing is stored", cobra.ExactArgs(1), func(cmd *cobra.Command, s *session, args []string) error {
		asked, err := f.request(cmd, s, args[0])
		if err != nil {
			return err
		}
		x, err := s.TestSource(cmd.Context(), s.tenant, args[0], asked, s.keep())
		if err != nil {
			return err
		}
		return s.answer(func(w io.Writer) error { return showExplanation(w, x) })
	})
	cmd.Example = `  eventhook source test github -H 'X-GitHub-Event: push' -H "X-Hub-Signature-256: $SIG" --body-file push.json
  eventhook source test github --event 0199…    as an event that is stored was sent`
	flags := cmd.Flags()
	flags.StringArrayVarP(&f.headers, "header", "H", nil, "'Name: value'; may be repeated")
	flags.StringVar(&f.bodyFile, "body-file", "", "file with the body, - for standard input")
	flags.StringVar(&f.method, "method", "", "POST by default")
	flags.StringVar(&f.url, "url", "", "the URL that it was sent to; the source's by default")
	flags.StringVar(&f.now, "at", "", "when it came: a time, or how long ago; timestamps are judged against that")
	flags.StringVar(&f.event, "event", "", "take all that from a stored event, by its id, or the source's latest")
	return cmd
}

// request is what flags, or a stored event that came by the source, describe.
func (f *testFlags) request(cmd *cobra.Command, s *session, source string) (client.ExplainRequest, error) {
	if f.event != "" {
		if len(f.headers) > 0 || f.bodyFile != "" {
			return client.ExplainRequest{}, input.Usagef("--event has headers and body already")
		}
		e, err := s.eventOf(cmd.Context(), f.event, source)
		if err != nil {
			return client.ExplainRequest{}, err
		}
		return s.asSent(cmd.Context(), e)
	}
	asked := client.ExplainRequest{Headers: map[string]any{}, Method: optionalFlag(f.method), URL: optionalFlag(f.url)}
	for _, h := range f.headers {
		name, value, ok := strings.Cut(h, ":")
		if !ok {
			return asked, input.Usagef("--header %q, want 'Name: value'", terminal.Printable(name))
		}
		earlier, _ := asked.Headers[name].([]string)
		asked.Headers[name] = append(earlier, strings.TrimSpace(value))
	}
	if f.now != "" {
		at, err := agoFlag("at", f.now, time.Now())
		if err != nil {
			return asked, err
		}
		asked.At = &at
	}
	if f.bodyFile != "" {
		raw, err := input.ReadFile(f.bodyFile, cmd.InOrStdin())
		if err != nil {
			return asked, input.Usage(err)
		}
		asked.BodyBase64 = new(base64.StdEncoding.EncodeToString(raw))
	}
	return asked, nil
}

// eventOf reads an event that came by a source.
func (s *session) eventOf(ctx context.Context, arg, source string) (e client.EventDetail, err error) {
	id, err := s.eventID(ctx, arg, source)
	if err != nil {
		return e, err
	}
	if e, err = s.GetEvent(ctx, s.tenant, id); err != nil {
		return e, err
	}
	if textOf(e.Source) != source {
		return e, input.Usagef("the event %s came by %s; it takes one of source %s", e.ID, cameBy(e), source)
	}
	return e, nil
}

// asSent is the request that an event came with, but for its credentials.
func (s *session) asSent(ctx context.Context, e client.EventDetail) (client.ExplainRequest, error) {
	asked := client.ExplainRequest{Headers: map[string]any{}, At: &e.ReceivedAt}
	for name, value := range e.Headers {
		asked.Headers[name] = value
	}
	_, raw, err := s.Payload(ctx, s.tenant, e.ID)
	if client.StatusOf(err) == http.StatusNotFound {
		return asked, errors.New("its body is past its retention")
	}
	asked.BodyBase64 = new(base64.StdEncoding.EncodeToString(raw))
	return asked, err
}

func showExplanation(w io.Writer, x client.Explanation) error {
	verdict := "yes, as " + x.Scheme
	if !x.Verified {
		verdict = "no: " + textOf(x.Error)
	}
	if x.Verified && !x.CoversBody {
		verdict += ", which does not cover the body"
	}
	duplicate := ""
	if x.Duplicate {
		duplicate = textOf(x.DuplicateOf)
	}
	err := printFields(w, field{"verified", verdict}, field{"refused", strings.TrimSpace(textOf(x.Refused) + " " + textOf(x.RefusedDetail))},
		field{"handshake", textOf(x.Handshake)}, field{"event type", textOf(x.EventType)}, field{"idempotency key", textOf(x.IdempotencyKey)},
		field{"duplicate of", duplicate})
	if err != nil || x.Handshake != nil {
		return err
	}
	_, _ = fmt.Fprintln(w, "\nWhat the routes would make of it:")
	return showRoutes(w, x.Routes)
}

// showRoutes tells of each route whether it matches, and why, or why that
// cannot be told.
func showRoutes(w io.Writer, routes []client.RouteExplanation) error {
	if len(routes) == 0 {
		_, err := fmt.Fprintln(w, "The source has no routes.")
		return err
	}
	for _, r := range routes {
		verdict := "does not match: "
		switch {
		case isUntold(r):
			verdict = "" // the reason says so
		case r.Matched:
			verdict = "matches, for " + explainedTargets(r) + ": "
		}
		if _, err := fmt.Fprintf(w, "  %s %s%s\n", terminal.Printable(r.Name), verdict, terminal.Printable(r.Reason)); err != nil {
			return err
		}
	}
	return nil
}

// cannotTell begins the reason of a route whose match is not known; see
// route.UndecidedPrefix.
const cannotTell = "cannot tell: "

// isUntold reports whether nobody can tell if a route would take the event. Its
// actions then fail for the reason that the route gives.
func isUntold(r client.RouteExplanation) bool { return strings.HasPrefix(r.Reason, cannotTell) }

func explainedTargets(r client.RouteExplanation) string {
	texts := make([]string, len(r.Actions))
	for i, a := range r.Actions {
		texts[i] = a.TargetType
		if why := textOf(a.Error); why != "" {
			texts[i] += " (would fail: " + why + ")"
		}
	}
	return strings.Join(texts, ", ")
}
