package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/eventhook/eventhook/internal/cli/input"
	"github.com/eventhook/eventhook/internal/cli/terminal"
)

// top shows the state of a gateway.
type top struct {
	scraper  scraper
	session  *session // nil: the API is not asked
	interval time.Duration

	lists   topLists // of the last answer of the API
	listsAt time.Time
}

// listsAge is how long the answers of the API are shown before the API is asked again.
const listsAge = 30 * time.Second

func newTop(version string) *cobra.Command {
	r := &remote{version: version, output: "table"}
	var urls []string
	var once bool
	t := &top{}
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Watch a gateway: rates, latencies, queues, receivers and the database",
		Long: `Watch a gateway in the terminal: the rates of accepted, refused and delivered webhooks,
latencies, queues, circuit breakers and the database, refreshed every --interval. q or
Ctrl-C ends it. If the output is no terminal, or with --once, top prints one view.

The numbers are those of /metrics on the management listener. Give --management once for
each instance to see their sum. With --key, an admin or admin read key, top also lists the
slowest and the failing receivers of the last hour and the failing sources. It reads them
from the API of --server every 30 seconds.

Exit codes: 0 success; 1 failure; 2 wrong usage.`,
		Args: cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&urls, "management", []string{"http://localhost:9980"}, "URL of the management listener of an instance; may be repeated")
	flags.StringVar(&r.server, "server", "", "the gateway's URL; EVENTHOOK_SERVER, or "+input.DefaultServer)
	flags.StringVar(&r.key, "key", "", "admin or admin read key; prefer EVENTHOOK_KEY, which process lists do not show")
	input.DurationVar(flags, &t.interval, "interval", 2*time.Second, "time between two views, from 1s")
	flags.BoolVar(&once, "once", false, "print one view and exit")
	flags.StringVarP(&r.output, "output", "o", "table", "table or json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if t.interval < time.Second || t.interval > time.Hour {
			return input.Usagef("--interval %s, want 1s to 1h", t.interval)
		}
		if _, err := terminal.NewPrinter(cmd, r.output); err != nil {
			return err
		}
		var err error
		if t.scraper, err = newScraper(urls); err != nil {
			return err
		}
		if r.key != "" || os.Getenv("EVENTHOOK_KEY") != "" {
			if t.session, err = r.connect(cmd); err != nil {
				return err
			}
		}
		if !once && r.output == "table" && terminal.IsTerminal(cmd.OutOrStdout()) {
			return t.watch(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout())
		}
		return t.printOnce(cmd.Context(), terminal.Printer{Out: cmd.OutOrStdout(), JSON: r.output == "json"})
	}
	return cmd
}

// printOnce prints the view of one interval.
func (t *top) printOnce(ctx context.Context, p terminal.Printer) error {
	before, err := t.scraper.scrape(ctx)
	if err != nil {
		return err
	}
	if !pause(ctx, t.interval) {
		return ctx.Err()
	}
	after, err := t.scraper.scrape(ctx)
	if err != nil {
		return err
	}
	v := newTopView(before, after)
	v.Lists = t.readLists(ctx)
	if p.JSON {
		return terminal.PrintLine(p.Out, v)
	}
	return v.write(p.Out, terminal.Columns(p.Out))
}

// watch shows views until the user presses q or ctx ends. If the gateway does not answer, watch
// says so and tries again.
func (t *top) watch(ctx context.Context, stdin io.Reader, stdout io.Writer) error {
	ctx, quit := context.WithCancel(ctx)
	defer quit()
	restore, _ := readKeys(stdin, quit, func(byte) {})
	defer restore()
	return t.showViews(ctx, stdout)
}

// showViews is watch without the keys.
func (t *top) showViews(ctx context.Context, stdout io.Writer) error {
	const hideCursor, showCursor, alternate, primary = "\x1b[?25l", "\x1b[?25h", "\x1b[?1049h", "\x1b[?1049l"
	_, _ = io.WriteString(stdout, alternate+hideCursor)
	defer func() { _, _ = io.WriteString(stdout, showCursor+primary) }()
	before, err := t.scraper.scrape(ctx)
	t.show(stdout, "waiting for the first interval …\n", err)
	for pause(ctx, t.interval) {
		after, err := t.scraper.scrape(ctx)
		var text strings.Builder
		if err == nil && before != nil {
			v := newTopView(before, after)
			v.Lists = t.readLists(ctx)
			if err := v.write(&text, terminal.Columns(stdout)); err != nil {
				return err
			}
		}
		if ctx.Err() == nil {
			t.show(stdout, text.String(), err)
		}
		before = after
	}
	return nil
}

// show replaces the text on the screen.
func (t *top) show(w io.Writer, text string, err error) {
	if err != nil {
		text += err.Error() + "\nq ends eventhook top; it tries again meanwhile.\n"
	}
	const home, clearRight, clearBelow = "\x1b[H", "\x1b[K", "\x1b[J"
	_, _ = io.WriteString(w, home+strings.ReplaceAll(text, "\n", clearRight+"\r\n")+clearBelow)
}

// pause waits for d. It returns false if ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// readLists returns what the API knows of receivers and sources, or nil without a key. It asks the
// API every listsAge.
func (t *top) readLists(ctx context.Context) *topLists {
	if t.session == nil {
		return nil
	}
	if now := time.Now(); now.Sub(t.listsAt) >= listsAge {
		ctx, cancel := context.WithTimeout(ctx, listsAge)
		defer cancel()
		lists, err := readTopLists(ctx, t.session.Client)
		if err != nil && !errors.Is(err, context.Canceled) {
			lists.Error = strings.ReplaceAll(t.session.withAdvice(err).Error(), "\n", "; ")
		}
		t.lists, t.listsAt = lists, now
	}
	return &t.lists
}
