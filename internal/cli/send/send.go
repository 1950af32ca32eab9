package send

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/eventhook/eventhook/ingest"
	"github.com/eventhook/eventhook/internal/cli/input"
	"github.com/eventhook/eventhook/internal/cli/terminal"
	"github.com/eventhook/eventhook/verify"
)

// sendFlags are the flags of send.
type sendFlags struct {
	Sample
	server, tenant, output string
	url, source, bodyFile  string
	keyFile                string
	options                []string
	secrets                input.Secrets
}

// New returns the command.
func New() *cobra.Command {
	f := &sendFlags{}
	cmd := &cobra.Command{
		Use:   "send PROVIDER",
		Short: "Send a signed sample webhook of a provider",
		Long: `Sign a sample webhook as a provider does, send it to a source of a gateway or to
any URL, and print the answer. The command succeeds if the answer is 2xx. Each
webhook has a new id. Send the same --id twice to see a duplicate.

  eventhook send stripe --tenant shop --secret-env STRIPE_SECRET
  eventhook send github --url https://hooks.example.com/in --secret-file secret.txt --type ping
  eventhook send discord --tenant shop --key-file test.pem

For a provider that signs the URL, --public-url is the URL that the gateway knows
(EVENTHOOK_PUBLIC_URL) if you send to another one. For a provider that signs with a
private key, the command says how to use a key of your own.

Providers:
` + providerList(),
		Args: cobra.ExactArgs(1),
		ValidArgsFunction: func(_ *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return completeWith(verify.Providers(), toComplete), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			f.Provider = args[0]
			return f.send(cmd)
		},
	}
	f.addTo(cmd)
	return cmd
}

// addTo defines the flags.
func (f *sendFlags) addTo(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.server, "server", "", "the gateway's URL; EVENTHOOK_SERVER, or "+input.DefaultServer)
	flags.StringVar(&f.tenant, "tenant", "", "slug of the tenant; EVENTHOOK_TENANT")
	flags.StringVar(&f.source, "source", "", "slug of the source; the name of the provider by default")
	flags.StringVar(&f.url, "url", "", "URL to send to, instead of --server, --tenant and --source")
	flags.StringVarP(&f.output, "output", "o", "table", "table, or json: the unchanged answer")
	f.secrets.AddTo(flags)
	flags.StringVar(&f.EventType, "type", "", "event type, such as push or payment_intent.created")
	flags.StringVar(&f.ID, "id", "", "id of the webhook; a new id by default")
	flags.StringVar(&f.PaymentID, "payment", "", "id of the payment intent (stripe only)")
	flags.StringVar(&f.bodyFile, "body-file", "", "body to send instead of the sample; - is standard input")
	flags.StringVar(&f.Scheme, "scheme", "", "signature scheme of the provider; the first by default")
	flags.StringArrayVar(&f.options, "option", nil, "option of the provider as name=value, as in the source; may be repeated")
	flags.StringVar(&f.keyFile, "key-file", "", "file with the private key, in PEM, for providers that sign with one")
	flags.StringVar(&f.PublicURL, "public-url", "", "URL to sign, as registered at the provider; the URL to send to by default")
	_ = cmd.RegisterFlagCompletionFunc("scheme", func(_ *cobra.Command, args []string, toComplete string) ([]cobra.Completion,
		cobra.ShellCompDirective) {
		if len(args) == 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return completeWith(verify.Schemes(args[0]), toComplete), cobra.ShellCompDirectiveNoFileComp
	}) // fails only if the flag does not exist
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"table", "json"}, cobra.ShellCompDirectiveNoFileComp))
}

// completeWith returns the values that begin with toComplete.
func completeWith(list []string, toComplete string) []cobra.Completion {
	return slices.DeleteFunc(list, func(v string) bool { return !strings.HasPrefix(v, toComplete) })
}

// providerList returns the ids of the providers in lines of at most 76 characters.
func providerList() string {
	const width = 76
	text, line := "", " "
	for _, id := range verify.Providers() {
		if len(line)+len(id)+1 > width {
			text, line = text+line+"\n", " "
		}
		line += " " + id
	}
	return text + line
}

// send sends the webhook and prints the answer.
func (f *sendFlags) send(cmd *cobra.Command) error {
	p, err := terminal.NewPrinter(cmd, f.output)
	if err != nil {
		return err
	}
	f.tenant = cmp.Or(f.tenant, os.Getenv(input.TenantVariable))
	to, err := f.target()
	if err != nil {
		return err
	}
	secret, err := f.read(cmd.InOrStdin())
	if err != nil {
		return input.Usage(err)
	}
	r, err := f.Request(cmd.Context(), to, secret, time.Now())
	if err != nil {
		return err
	}
	a, err := exchange(r)
	if err != nil {
		return f.connectError(err, r.URL)
	}
	return f.report(p, a)
}

// target returns the URL to send to.
func (f *sendFlags) target() (string, error) {
	switch {
	case f.url != "":
		if at, err := url.Parse(f.url); err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Hostname() == "" {
			return "", input.Usagef("--url %q, want a URL such as https://hooks.example.com/in", f.url)
		}
		return f.url, nil
	case f.tenant == "":
		return "", input.Usagef("a destination is required: --tenant (and --source), or --url")
	}
	return strings.TrimSuffix(input.ServerURL(f.server), "/") + ingest.Path(f.tenant, f.sourceSlug()), nil
}

func (f *sendFlags) sourceSlug() string { return cmp.Or(f.source, f.Provider) }

// read reads the options and files, and returns the secret.
func (f *sendFlags) read(stdin io.Reader) (secret string, err error) {
	f.Options = map[string]string{}
	for _, pair := range f.options {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return "", fmt.Errorf("--option %q, want name=value", pair)
		}
		f.Options[name] = value
	}
	if f.keyFile != "" {
		raw, err := input.ReadFile(f.keyFile, stdin)
		if err == nil {
			f.Key, err = parseKey(raw)
		}
		if err != nil {
			return "", err
		}
	}
	if f.bodyFile != "" {
		if f.Body, err = input.ReadFile(f.bodyFile, stdin); err != nil {
			return "", err
		}
	}
	return f.secret(stdin)
}

// secret returns the signing secret: the first of the flags, else EVENTHOOK_SECRET.
// It returns "" if the provider signs with a private key or does not exist.
func (f *sendFlags) secret(stdin io.Reader) (string, error) {
	if f.preset().ID == "" || !f.needsSecret() {
		return "", nil
	}
	if f.secrets.Given() {
		texts, err := f.secrets.Read(stdin)
		if err != nil {
			return "", err
		}
		return texts[0], nil
	}
	if text := os.Getenv(input.SecretVariable); text != "" {
		return text, nil
	}
	return "", errors.New("a secret is required: --secret-env, --secret-file, --secret or EVENTHOOK_SECRET")
}

// Answer is the JSON answer of a gateway to a webhook.
type Answer struct {
	EventID     string `json:"event_id"`
	Status      string
	DuplicateOf string `json:"duplicate_of"`
}

// response is the HTTP response to a webhook.
type response struct {
	code   int
	status string
	body   []byte
}

// exchange sends the request and reads the response.
func exchange(r *http.Request) (response, error) {
	const timeout, maxBody = 30 * time.Second, 64 << 10
	h := &http.Client{Timeout: timeout}
	resp, err := h.Do(r)
	if err != nil {
		return response{}, fmt.Errorf("send: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	if err != nil {
		return response{}, fmt.Errorf("read the answer: %w", err)
	}
	return response{resp.StatusCode, resp.Status, answer}, nil
}

// connectError returns the error of a request to the URL to.
func (f *sendFlags) connectError(err error, to *url.URL) error {
	if f.url == "" {
		return terminal.GatewayError(err, input.ServerURL(f.server))
	}
	server := to.Scheme + "://" + to.Host
	return terminal.ConnectError(err, server, "no server listens at "+server)
}

// report prints the answer and the command that shows the event. It fails unless
// the answer is 2xx.
func (f *sendFlags) report(p terminal.Printer, a response) error {
	p.Say("%s", a.status)
	if _, err := fmt.Fprintf(p.Out, "%s\n", a.body); err != nil {
		return err
	}
	if a.code/100 != http.StatusOK/100 {
		if a.code == http.StatusUnauthorized && f.url == "" {
			return fmt.Errorf("the answer is %s; eventhook source rejections %s --tenant %s shows the reason", a.status, f.sourceSlug(), f.tenant)
		}
		return fmt.Errorf("the answer is %s", a.status)
	}
	var accepted Answer
	if json.Unmarshal(a.body, &accepted) == nil && accepted.EventID != "" && f.url == "" {
		p.Say("\nTo show the event: eventhook event get %s --tenant %s", accepted.EventID, f.tenant)
	}
	return nil
}
