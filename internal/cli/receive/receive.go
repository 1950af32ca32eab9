package receive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/eventhook/eventhook/internal/cli/input"
	"github.com/eventhook/eventhook/internal/cli/terminal"
)

// receiveFlags say where to receive, how to verify, and what to answer.
type receiveFlags struct {
	listen     string
	port       int
	path       string
	answer     answering
	count      int
	secrets    input.Secrets
	publicKeys []string
	tolerance  int
	output     string
}

const receiveLong = `Be a subscriber for trying things out: receive events over HTTP, verify them as
Standard Webhooks, print each, and answer. Whatever is not verified is answered
401. Without a secret or a public key nothing can be verified: everything is
answered as if it were, and printed as not verified.

  eventhook receive --port 9000 --secret-env BILLING_SECRET
  eventhook receive --secret whsec_NEW --secret whsec_OLD     during a rotation
  eventhook receive --public-key whpk_…                       signature v1a
  eventhook receive --status 503 --delay 2s                   be a bad one
  eventhook receive --fail-every 3                            see retries

An event that comes a second time is printed again, and told as such: whoever
receives recognizes it by its webhook-id. Ctrl-C or SIGTERM ends it, and says how
many came. With -o json each is one line, and everything else goes to the
standard error.

Exit codes: 0 done; 1 failed; 2 wrong usage.`

func New() *cobra.Command {
	f := &receiveFlags{}
	cmd := &cobra.Command{
		Use:   "receive [--port 9000] [--secret whsec_…]",
		Short: "Be a subscriber: receive events, verify them and print them",
		Long:  receiveLong,
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	flags.IntVar(&f.port, "port", 9000, "port to receive at; 0 picks one")
	flags.StringVar(&f.listen, "listen", "127.0.0.1", "address to receive at, without the port; 0.0.0.0 for all of this machine's")
	flags.StringVar(&f.path, "path", "", "the only path to receive at, such as /hooks; others are answered 404; any by default")
	f.secrets.AddTo(flags)
	flags.StringArrayVar(&f.publicKeys, "public-key", nil, "a public key (whpk_…), or @FILE; may be repeated")
	flags.IntVar(&f.tolerance, "tolerance", 300, "seconds between a signature's time and receipt; 0: not judged")
	flags.IntVar(&f.answer.status, "status", http.StatusOK, "what to answer to what is verified")
	flags.DurationVar(&f.answer.delay, "delay", 0, "how long to wait before each answer, such as 2s")
	flags.IntVar(&f.answer.failEvery, "fail-every", 0, "answer every Nth of them with 500; 0: none")
	flags.IntVar(&f.count, "count", 0, "end after so many; 0: never")
	flags.StringVarP(&f.output, "output", "o", "table", "table, or json: one line for each")
	return cmd
}

// check finds values that make no sense. Its errors are wrong usage.
func (f *receiveFlags) check() error {
	const mostPort, leastStatus, mostStatus, mostTolerance = 65535, 200, 599, 24 * 60 * 60
	switch {
	case f.port < 0 || f.port > mostPort:
		return fmt.Errorf("--port %d, want 0 to %d", f.port, mostPort)
	case f.answer.status < leastStatus || f.answer.status > mostStatus:
		return fmt.Errorf("--status %d, want %d to %d", f.answer.status, leastStatus, mostStatus)
	case f.answer.delay < 0:
		return fmt.Errorf("--delay %s, want none or more", f.answer.delay)
	case f.tolerance < 0 || f.tolerance > mostTolerance:
		return fmt.Errorf("--tolerance %d, want 0 to %d", f.tolerance, mostTolerance)
	case f.answer.failEvery < 0:
		return fmt.Errorf("--fail-every %d, want 1 or more", f.answer.failEvery)
	case f.count < 0:
		return fmt.Errorf("--count %d, want 1 or more", f.count)
	case f.path != "" && !strings.HasPrefix(f.path, "/"):
		return fmt.Errorf("--path %q, want one that begins with /", f.path)
	}
	return nil
}

func (f *receiveFlags) run(cmd *cobra.Command) error {
	p, err := terminal.NewPrinter(cmd, f.output)
	if err != nil {
		return err
	}
	if err := f.check(); err != nil {
		return input.Usage(err)
	}
	signed, err := f.signatures(cmd.InOrStdin())
	if err != nil {
		return input.Usage(err)
	}
	l, err := listenTo(cmd.Context(), f.listen, f.port)
	if err != nil {
		return err
	}
	r := newReceiver(signed, f.answer, f.path, p)
	f.announce(r.told, l.Addr(), len(signed) > 0)
	return r.serve(cmd.Context(), l, f.count)
}

// signatures are the ways in which a request may be signed: by any of the
// secrets or keys that are given, or by EVENTHOOK_SECRET without any.
func (f *receiveFlags) signatures(stdin io.Reader) ([]signature, error) {
	secrets, err := f.secrets.Read(stdin)
	if err != nil {
		return nil, err
	}
	if text := os.Getenv(input.SecretVariable); text != "" && len(secrets)+len(f.publicKeys) == 0 {
		secrets = []string{text}
	}
	keys := make([]string, len(f.publicKeys))
	for i, text := range f.publicKeys {
		if keys[i], err = input.TextOrFile(text); err != nil {
			return nil, fmt.Errorf("--public-key: %w", err)
		}
	}
	return newSignatures(secrets, keys, f.tolerance)
}

// listenTo takes a port, and says in plain words why it cannot.
func listenTo(ctx context.Context, host string, port int) (net.Listener, error) {
	address := net.JoinHostPort(host, strconv.Itoa(port))
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	_, isNoAddress := errors.AsType[*net.AddrError](err)
	_, isNoName := errors.AsType[*net.DNSError](err)
	switch {
	case err == nil:
		return l, nil
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("something else listens at %s already: stop it, or take another --port", address)
	case errors.Is(err, syscall.EACCES):
		return nil, fmt.Errorf("this user may not listen at %s: take a --port above 1023", address)
	case isNoAddress || isNoName || errors.Is(err, syscall.EADDRNOTAVAIL):
		return nil, input.Usagef("--listen %q is no address of this machine", host)
	}
	return nil, fmt.Errorf("listen at %s: %w", address, err)
}

// announce says where events are received, and how to have them sent here.
func (f *receiveFlags) announce(w io.Writer, at net.Addr, verifies bool) {
	url := "http://" + terminal.Address(at) + cmp.Or(f.path, "/")
	_, _ = fmt.Fprintf(w, "Receiving at %s; Ctrl-C ends it. Subscribe it with\n  eventhook subscription create receiver --url %s --type '*'%s\n", url, url, f.secrets.Example())
	if !verifies {
		_, _ = fmt.Fprintln(w, "Nothing is verified: give the secret that this prints, with --secret-env, --secret-file or --secret.")
	}
	if a, ok := at.(*net.TCPAddr); ok && (a.IP.IsLoopback() || a.IP.IsPrivate()) {
		_, _ = fmt.Fprintln(w, "It is in a private network: a gateway sends here only if that is allowed, as make run does, such as by EVENTHOOK_OUTBOUND_ALLOWED_CIDRS=127.0.0.0/8.")
	}
	_, _ = fmt.Fprintln(w)
}

// The bounds of what a sender can hold here.
const (
	receiveHeaderTimeout = 10 * time.Second
	receiveReadTimeout   = time.Minute
	receiveStopTimeout   = 5 * time.Second
)

// serve receives until ctx ends or as many have come as are wanted, and says
// how many did. 0 wants no end.
func (r *receiver) serve(ctx context.Context, l net.Listener, wanted int) error {
	server := &http.Server{Handler: r, ReadHeaderTimeout: receiveHeaderTimeout, ReadTimeout: receiveReadTimeout}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	var err error
	for done := false; !done; {
		select {
		case <-ctx.Done():
			done = true
		case err = <-failed:
			done = true
		case n := <-r.came:
			done = n == wanted
		}
	}
	close(r.stopping)
	stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), receiveStopTimeout)
	defer cancel()
	if server.Shutdown(stopCtx) != nil {
		_ = server.Close()
	}
	_, _ = fmt.Fprintln(r.told, r.summary())
	return err
}
