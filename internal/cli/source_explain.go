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

// testFlags describe the request of a test.
type testFlags struct {
	headers                    []string
	method, url, bodyFile, now string
	event                      string
}

func newSourceTest(r *remote) *cobra.Command {
	var f testFlags
	cmd := r.verb("test SLUG", "Test a source with a request, without storing it", cobra.ExactArgs(1), func(cmd *cobra.Command, s *session, args []string) error {
		request, err := f.request(cmd, s, args[0])
		if err != nil {
			return err
		}
		x, err := s.TestSource(cmd.Context(), s.tenant, args[0], request, s.keepBody())
		if err != nil {
			return err
		}
		return s.answer(func(w io.Writer) error { return showExplanation(w, x) })
	})
	cmd.Example = `  eventhook source test github -H 'X-GitHub-Event: push' -H "X-Hub-Signature-256: $SIG" --body-file push.json
  eventhook source test github --event 0199…    repeat the request of a stored event`
	flags := cmd.Flags()
	flags.StringArrayVarP(&f.headers, "header", "H", nil, "header as 'Name: value'; may be repeated")
	flags.StringVar(&f.bodyFile, "body-file", "", "file with the body, - for standard input")
	flags.StringVar(&f.method, "method", "", "HTTP method; POST by default")
	flags.StringVar(&f.url, "url", "", "URL of the request; the source's URL by default")
	flags.StringVar(&f.now, "at", "", "time of receipt, or a duration before now; signed timestamps are compared with it")
	flags.StringVar(&f.event, "event", "", "use the request of a stored event: its id, or latest")
	return cmd
}

// request returns the request that the flags describe, or that of a stored event of
// the source.
func (f *testFlags) request(cmd *cobra.Command, s *session, source string) (client.ExplainRequest, error) {
	if f.event != "" {
		if len(f.headers) > 0 || f.bodyFile != "" {
			return client.ExplainRequest{}, input.Usagef("--event cannot be combined with --header or --body-file")
		}
		e, err := s.eventOf(cmd.Context(), f.event, source)
		if err != nil {
			return client.ExplainRequest{}, err
		}
		return s.requestOf(cmd.Context(), e)
	}
	request := client.ExplainRequest{Headers: map[string]any{}, Method: optionalFlag(f.method), URL: optionalFlag(f.url)}
	for _, h := range f.headers {
		name, value, ok := strings.Cut(h, ":")
		if !ok {
			return request, input.Usagef("--header %q, want 'Name: value'", terminal.Printable(name))
		}
		earlier, _ := request.Headers[name].([]string)
		request.Headers[name] = append(earlier, strings.TrimSpace(value))
	}
	if f.now != "" {
		at, err := pastTimeFlag("at", f.now, time.Now())
		if err != nil {
			return request, err
		}
		request.At = &at
	}
	if f.bodyFile != "" {
		raw, err := input.ReadFile(f.bodyFile, cmd.InOrStdin())
		if err != nil {
			return request, input.Usage(err)
		}
		request.BodyBase64 = new(base64.StdEncoding.EncodeToString(raw))
	}
	return request, nil
}

// eventOf reads an event and fails if it is not from the source.
func (s *session) eventOf(ctx context.Context, arg, source string) (e client.EventDetail, err error) {
	id, err := s.eventID(ctx, arg, source)
	if err != nil {
		return e, err
	}
	if e, err = s.GetEvent(ctx, s.tenant, id, client.GetEventParams{}); err != nil {
		return e, err
	}
	if textOf(e.Source) != source {
		return e, input.Usagef("the origin of the event %s is %s; an event of source %s is required", e.ID, originOf(e), source)
	}
	return e, nil
}

// requestOf returns the request that an event arrived with, without its credentials.
func (s *session) requestOf(ctx context.Context, e client.EventDetail) (client.ExplainRequest, error) {
	request := client.ExplainRequest{Headers: map[string]any{}, At: &e.ReceivedAt, Method: e.Method}
	if below := requestPath(e); below != "" && e.Source != nil {
		source, err := s.GetSource(ctx, s.tenant, *e.Source)
		if err != nil {
			return request, err
		}
		request.URL = new(source.IngestURL + below)
	}
	for name, value := range e.Headers {
		request.Headers[name] = value
	}
	_, raw, err := s.Payload(ctx, s.tenant, e.ID)
	if client.StatusOf(err) == http.StatusNotFound {
		return request, errors.New("its body was deleted after its retention")
	}
	request.BodyBase64 = new(base64.StdEncoding.EncodeToString(raw))
	return request, err
}

// requestPath returns the path suffix and the query of the request of an event.
func requestPath(e client.EventDetail) string {
	if e.Query == "" {
		return e.PathSuffix
	}
	return e.PathSuffix + "?" + e.Query
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
	_, _ = fmt.Fprintln(w, "\nResult of the routes:")
	return showRoutes(w, x.Routes)
}

// showRoutes prints for each route whether it matches, and the reason.
func showRoutes(w io.Writer, routes []client.RouteExplanation) error {
	if len(routes) == 0 {
		_, err := fmt.Fprintln(w, "The source has no routes.")
		return err
	}
	for _, r := range routes {
		verdict := "does not match: "
		switch {
		case isUndecided(r):
			verdict = "" // the reason begins with undecidedPrefix
		case r.Matched:
			verdict = "matches, for " + explainedTargets(r) + ": "
		}
		if _, err := fmt.Fprintf(w, "  %s %s%s\n", terminal.Printable(r.Name), verdict, terminal.Printable(r.Reason)); err != nil {
			return err
		}
	}
	return nil
}

// undecidedPrefix is the prefix of the reason of a route for which the gateway could not
// decide whether it matches. It equals route.UndecidedPrefix.
const undecidedPrefix = "cannot tell: "

// isUndecided reports whether the gateway could not decide if a route matches. The
// actions of the route then fail for the reason of the route.
func isUndecided(r client.RouteExplanation) bool { return strings.HasPrefix(r.Reason, undecidedPrefix) }

// explainedTargets lists the types of the targets and why they would fail.
func explainedTargets(r client.RouteExplanation) string {
	texts := make([]string, len(r.Actions))
	for i, a := range r.Actions {
		texts[i] = a.TargetType
		if failure := textOf(a.Error); failure != "" {
			texts[i] += " (would fail: " + failure + ")"
		}
	}
	return strings.Join(texts, ", ")
}
