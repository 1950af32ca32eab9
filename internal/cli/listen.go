package cli

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/cli/input"
	"github.com/eventhook/eventhook/internal/cli/listen"
	"github.com/eventhook/eventhook/internal/cli/terminal"
)

// listenFlags are the flags of listen.
type listenFlags struct {
	forward, since, replay         string
	subscription                   string
	secrets                        input.Secrets
	types, headers                 []string
	prints, duplicates, skipVerify bool
	count                          int
	timeout                        time.Duration
}

const listenLong = `Forward new webhooks to a program on this machine, as they arrive at the gateway: with the
original method, path suffix, query, headers and the exact bytes of the body, so that the
program's own check of the signature passes. One line per webhook shows the status and the
duration of the program's answer.

  eventhook listen stripe --forward http://localhost:3000/hooks
  eventhook listen --forward http://localhost:3000/hooks --since 10m --type 'payment_intent.*'
  eventhook listen github --print                          show webhooks, and forward nothing
  eventhook listen --forward http://localhost:3000/hooks --replay latest

Webhooks are forwarded one at a time, in the order of arrival. The command waits for the answer of
the program, and does not retry: press r. After a lost connection it continues without gap or
repetition. The gateway stores nothing for it, and delays nothing.

The path suffix and the query of a webhook are added to the URL of --forward. Host is that of
--forward; X-Forwarded-Host has the original one. The gateway does not store credentials such as
Authorization: --header adds them. Duplicates of stored webhooks are shown, and not forwarded
without --duplicates.

With --subscription the deliveries of a subscription are forwarded, with the body and the headers
that the subscriber gets, except its credentials. The secret of the subscription never leaves the
gateway: --secret-env or --secret-file sign them with the secret that the program verifies with.

Keys on a terminal: r forwards the last webhook again, d shows its request and answer, q quits.
With -o json each webhook is one line of JSON. The key needs the scope read.`

func newListen(version string) *cobra.Command {
	r := &remote{version: version, ofTenant: true}
	f := &listenFlags{}
	cmd := r.verb("listen [SOURCE…]", "Forward new webhooks to a program on this machine", cobra.ArbitraryArgs, f.run)
	cmd.Long = listenLong + callHelp
	cmd.ValidArgsFunction = r.fromGateway(listSources)
	flags := cmd.Flags()
	flags.StringVar(&f.forward, "forward", "", "URL of the program, such as http://localhost:3000/hooks")
	flags.StringVar(&f.since, "since", "", "start with the webhooks since a time, or within a duration such as 10m; by default with new ones")
	flags.StringArrayVar(&f.types, "type", nil, "event type, or a pattern such as 'payment_intent.*'; may be repeated")
	flags.StringVar(&f.replay, "replay", "", "forward one stored webhook, its id or latest, and exit")
	flags.StringArrayVarP(&f.headers, "header", "H", nil, "header of each forwarded request as 'Name: value'; may be repeated")
	flags.BoolVar(&f.prints, "print", false, "print headers and bodies; without --forward, nothing is forwarded")
	flags.BoolVar(&f.duplicates, "duplicates", false, "forward duplicates, too")
	flags.StringVar(&f.subscription, "subscription", "", "name or id of a subscription: forward its deliveries instead of webhooks")
	f.secrets.AddTo(flags)
	flags.BoolVar(&f.skipVerify, "skip-verify", false, "accept any TLS certificate of the program")
	flags.IntVar(&f.count, "count", 0, "exit after this number of webhooks; 0: never")
	input.DurationVar(flags, &f.timeout, "timeout", 30*time.Second, "maximum time for an answer of the program")
	r.addTo(flags)
	return cmd
}

func (f *listenFlags) run(cmd *cobra.Command, s *session, sources []string) error {
	c, err := f.config(s, sources)
	if err != nil {
		return err
	}
	if f.replay != "" {
		return f.replayOne(cmd.Context(), s, c)
	}
	now, err := s.gatewayTime(cmd.Context(), sources)
	if err != nil {
		return err
	}
	if c.Since = now; f.since != "" {
		if c.Since, err = pastTimeFlag("since", f.since, now); err != nil {
			return err
		}
		if c.Since.After(now) {
			return input.Usagef("--since %q is in the future", f.since)
		}
	}
	if err := f.useSubscription(cmd, s, &c); err != nil {
		return err
	}
	ctx, quit := context.WithCancel(cmd.Context())
	defer quit()
	keys := make(chan byte, 8)
	restore, hasKeys := readKeys(cmd.InOrStdin(), quit, func(key byte) {
		select {
		case keys <- key:
		default: // the user presses keys faster than they are handled
		}
	})
	defer restore()
	c.Keys = keys
	if hasKeys {
		c.Printer.Out, c.Printer.Hints = rawOutput(c.Printer.Out), rawOutput(c.Printer.Hints)
	}
	f.announce(c.Printer.Hints, hasKeys)
	return listen.Run(ctx, c)
}

// useSubscription finds the subscription and reads the secrets.
func (f *listenFlags) useSubscription(cmd *cobra.Command, s *session, c *listen.Config) (err error) {
	if f.subscription == "" {
		return nil
	}
	if c.Subscription, err = s.subscriptionID(cmd.Context(), f.subscription); err != nil {
		return err
	}
	if c.Secrets, err = f.secrets.Read(cmd.InOrStdin()); err != nil {
		return input.Usage(err)
	}
	if len(c.Secrets) == 0 {
		_, _ = io.WriteString(s.Hints, "The deliveries are not signed: to sign them, give the secret with which the program verifies, in --secret-env or --secret-file.\n")
	}
	return nil
}

// announce prints where webhooks go.
func (f *listenFlags) announce(w io.Writer, hasKeys bool) {
	text := "Waiting for webhooks"
	if f.forward != "" {
		text += " to forward to " + terminal.Printable(f.forward)
	}
	keys := "press Ctrl-C to stop"
	if hasKeys {
		keys = "r: again, d: details, q: quit"
	}
	_, _ = io.WriteString(w, text+"; "+keys+".\n")
}

// config checks the flags.
func (f *listenFlags) config(s *session, sources []string) (c listen.Config, err error) {
	c = listen.Config{Client: s.Client, Tenant: s.tenant, Sources: sources, Types: f.types, Duplicates: f.duplicates,
		Prints: f.prints, Count: f.count, Printer: s.Printer, Header: http.Header{}, Now: time.Now, Pause: pause}
	switch {
	case f.forward == "" && !f.prints:
		return c, input.Usagef("set --forward to the URL of a program, or --print to show the webhooks only")
	case f.timeout <= 0 || f.timeout > time.Hour:
		return c, input.Usagef("--timeout %s, want up to 1h", f.timeout)
	case f.count < 0:
		return c, input.Usagef("--count %d, want 1 or more", f.count)
	case f.replay == latest && (f.since != "" || len(f.types)+f.count > 0 || len(sources) > 1):
		return c, input.Usagef("--replay latest forwards the newest webhook, of one source if it is given: it cannot be combined with more sources, --since, --type or --count")
	case f.replay != "" && f.replay != latest && (f.since != "" || len(f.types)+len(sources)+f.count > 0):
		return c, input.Usagef("--replay forwards one webhook: it cannot be combined with sources, --since, --type or --count")
	}
	if f.subscription != "" && (len(sources) > 0 || f.replay != "") {
		return c, input.Usagef("--subscription cannot be combined with sources and --replay")
	}
	if f.subscription == "" && f.secrets.Given() {
		return c, input.Usagef("a secret signs the deliveries of --subscription; webhooks have the signature of their sender")
	}
	for _, p := range f.types {
		if why := eventhook.CheckPattern(p); why != "" {
			return c, input.Usagef("--type %s", why)
		}
	}
	if err := f.addHeaders(c.Header); err != nil {
		return c, err
	}
	if f.forward != "" {
		c.Forward, err = forwardURL(f.forward)
	}
	c.HTTP = f.httpClient()
	return c, err
}

func (f *listenFlags) addHeaders(to http.Header) error {
	for _, h := range f.headers {
		name, value, ok := strings.Cut(h, ":")
		value = strings.TrimSpace(value)
		switch {
		case !ok: // may have credentials
			return input.Usagef("a --header has no colon, want 'Name: value'")
		case !eventhook.IsHeaderName(name), !eventhook.IsHeaderValue(value):
			return input.Usagef("--header %q, want 'Name: value'", terminal.Printable(name))
		}
		to.Add(name, value)
	}
	return nil
}

// forwardURL parses the URL of a program. A URL without a scheme gets http://.
func forwardURL(flag string) (*url.URL, error) {
	text := flag
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.Fragment != "" {
		return nil, input.Usagef("--forward %q, want a URL such as http://localhost:3000/hooks", terminal.Printable(flag))
	}
	return u, nil
}

// httpClient returns the client for requests to the program: without redirects, proxies and
// compression of its own.
func (f *listenFlags) httpClient() *http.Client {
	transport := &http.Transport{DisableCompression: true, TLSHandshakeTimeout: f.timeout,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: f.skipVerify}} //nolint:gosec // the user asked for it
	return &http.Client{Transport: transport, Timeout: f.timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// replayOne forwards one stored webhook. It fails unless the program answers 2xx.
func (f *listenFlags) replayOne(ctx context.Context, s *session, c listen.Config) error {
	id, err := s.eventID(ctx, f.replay, strings.Join(c.Sources, ""))
	if err != nil {
		return err
	}
	ok, err := listen.Replay(ctx, c, id)
	if err == nil && !ok {
		return errors.New("the webhook was not answered with 2xx")
	}
	return err
}

// gatewayTime checks that the sources exist, and returns the time of the gateway's clock, which can
// differ from the clock of this machine.
func (s *session) gatewayTime(ctx context.Context, sources []string) (time.Time, error) {
	for _, slug := range sources {
		if _, err := s.GetSource(ctx, s.tenant, slug); err != nil {
			return time.Time{}, fmt.Errorf("source %q: %w", terminal.Printable(slug), err)
		}
	}
	var header http.Header
	if _, err := s.ListEvents(ctx, s.tenant, client.ListEventsParams{Limit: new(int64(1))}, client.KeepHeader(&header)); err != nil {
		return time.Time{}, err
	}
	now, err := http.ParseTime(header.Get("Date"))
	if err != nil {
		now = time.Now().Truncate(time.Second)
	}
	return now, nil
}

// rawOutput returns a writer for a terminal in raw mode, in which a line ends with CR LF. Other
// writers are returned as they are.
func rawOutput(w io.Writer) io.Writer {
	if !terminal.IsTerminal(w) {
		return w
	}
	return rawWriter{w}
}

type rawWriter struct{ w io.Writer }

func (r rawWriter) Write(p []byte) (int, error) {
	_, err := r.w.Write(bytes.ReplaceAll(p, []byte("\n"), []byte("\r\n")))
	return len(p), err
}
