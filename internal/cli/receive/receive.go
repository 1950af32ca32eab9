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

// receiveFlags are the flags of receive.
type receiveFlags struct {
	listen     string
	port       int
	path       string
	answer     answerPolicy
	count      int
	secrets    input.Secrets
	publicKeys []string
	tolerance  int
	output     string
}

const receiveLong = `Receive the events of a subscription over HTTP, for development: verify them as
Standard Webhooks, print and answer them. A request that cannot be verified is
answered 401. If neither a secret nor a public key is given, requests are printed as
not verified and answered as if they were verified.

  eventhook receive --port 9000 --secret-env BILLING_SECRET
  eventhook receive --secret whsec_NEW --secret whsec_OLD     during a rotation
  eventhook receive --public-key whpk_…                       signature v1a
  eventhook receive --status 503 --delay 2s                   answer every request with 503
  eventhook receive --fail-every 3                            answer every third request with 500

An event that is received again is marked as a duplicate, by its webhook-id. Ctrl-C
or SIGTERM ends the command, which then prints the number of requests. With
-o json each request is printed as one line of JSON, and all other output goes to
standard error.

Exit codes: 0 success; 1 failure; 2 wrong usage.`

// New returns the command.
func New() *cobra.Command {
	f := &receiveFlags{}
	cmd := &cobra.Command{
		Use:   "receive [--port 9000] [--secret whsec_…]",
		Short: "Receive, verify and print the events of a subscription",
		Long:  receiveLong,
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	flags.IntVar(&f.port, "port", 9000, "port to listen on; 0 for any free port")
	flags.StringVar(&f.listen, "listen", "127.0.0.1", "address to listen on, without the port; 0.0.0.0 for all addresses of this host")
	flags.StringVar(&f.path, "path", "", "path to receive at, such as /hooks; other paths are answered 404; any path by default")
	f.secrets.AddTo(flags)
	flags.StringArrayVar(&f.publicKeys, "public-key", nil, "a public key (whpk_…), or @FILE; may be repeated")
	flags.IntVar(&f.tolerance, "tolerance", 300, "maximum seconds between the time of a signature and its receipt; 0: not checked")
	flags.IntVar(&f.answer.status, "status", http.StatusOK, "status of the answer to verified requests")
	input.DurationVar(flags, &f.answer.delay, "delay", 0, "delay before each answer, such as 2s")
	flags.IntVar(&f.answer.failEvery, "fail-every", 0, "answer every Nth verified request with 500; 0: none")
	flags.IntVar(&f.count, "count", 0, "exit after this number of requests; 0: never")
	flags.StringVarP(&f.output, "output", "o", "table", "table, or json: one line per request")
	return cmd
}

// check validates the flags.
func (f *receiveFlags) check() error {
	const maxPort, minStatus, maxStatus, maxTolerance = 65535, 200, 599, 24 * 60 * 60
	switch {
	case f.port < 0 || f.port > maxPort:
		return fmt.Errorf("--port %d, want 0 to %d", f.port, maxPort)
	case f.answer.status < minStatus || f.answer.status > maxStatus:
		return fmt.Errorf("--status %d, want %d to %d", f.answer.status, minStatus, maxStatus)
	case f.answer.delay < 0:
		return fmt.Errorf("--delay %s, want 0 or more", f.answer.delay)
	case f.tolerance < 0 || f.tolerance > maxTolerance:
		return fmt.Errorf("--tolerance %d, want 0 to %d", f.tolerance, maxTolerance)
	case f.answer.failEvery < 0:
		return fmt.Errorf("--fail-every %d, want 1 or more", f.answer.failEvery)
	case f.count < 0:
		return fmt.Errorf("--count %d, want 1 or more", f.count)
	case f.path != "" && !strings.HasPrefix(f.path, "/"):
		return fmt.Errorf("--path %q, want a path that begins with /", f.path)
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
	l, err := listen(cmd.Context(), f.listen, f.port)
	if err != nil {
		return err
	}
	r := newReceiver(signed, f.answer, f.path, p)
	f.announce(r.notes, l.Addr(), len(signed) > 0)
	return r.serve(cmd.Context(), l, f.count)
}

// signatures returns a signature for each secret and public key of the flags, or for
// EVENTHOOK_SECRET if there are none.
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

// listen listens on a port. Its errors have advice for the user.
func listen(ctx context.Context, host string, port int) (net.Listener, error) {
	address := net.JoinHostPort(host, strconv.Itoa(port))
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	_, isNoAddress := errors.AsType[*net.AddrError](err)
	_, isNoName := errors.AsType[*net.DNSError](err)
	switch {
	case err == nil:
		return l, nil
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("%s is in use by another program: stop it, or choose another --port", address)
	case errors.Is(err, syscall.EACCES):
		return nil, fmt.Errorf("this user has no permission to listen on %s: choose a --port above 1023", address)
	case isNoAddress || isNoName || errors.Is(err, syscall.EADDRNOTAVAIL):
		return nil, input.Usagef("--listen %q is not an address of this host", host)
	}
	return nil, fmt.Errorf("listen on %s: %w", address, err)
}

// announce prints the URL of the receiver and the command that creates a
// subscription for it.
func (f *receiveFlags) announce(w io.Writer, at net.Addr, verifies bool) {
	url := "http://" + terminal.Address(at) + cmp.Or(f.path, "/")
	_, _ = fmt.Fprintf(w, "Receiving at %s; press Ctrl-C to stop. To subscribe it:\n  eventhook subscription create receiver --url %s --type '*'%s\n", url, url, f.secrets.Example())
	if !verifies {
		_, _ = fmt.Fprintln(w, "Requests are not verified: restart with the secret that this command prints, in --secret-env, --secret-file or --secret.")
	}
	if a, ok := at.(*net.TCPAddr); ok && (a.IP.IsLoopback() || a.IP.IsPrivate()) {
		_, _ = fmt.Fprintln(w, "The address is private: a gateway sends to it only if its configuration allows this, such as EVENTHOOK_OUTBOUND_ALLOWED_CIDRS=127.0.0.0/8, which make run sets.")
	}
	_, _ = fmt.Fprintln(w)
}

// The timeouts of the server.
const (
	receiveHeaderTimeout = 10 * time.Second
	receiveReadTimeout   = time.Minute
	receiveStopTimeout   = 5 * time.Second
)

// serve receives until ctx ends or wanted requests are answered; 0 means no limit.
// It then prints the number of requests.
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
		case n := <-r.count:
			done = n == wanted
		}
	}
	close(r.stopping)
	stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), receiveStopTimeout)
	defer cancel()
	if server.Shutdown(stopCtx) != nil {
		_ = server.Close()
	}
	_, _ = fmt.Fprintln(r.notes, r.summary())
	return err
}
