package verify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"

	"github.com/spf13/cobra"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/ingest"
	"github.com/eventhook/eventhook/internal/cli/input"
	"github.com/eventhook/eventhook/internal/cli/terminal"
	"github.com/eventhook/eventhook/verify"
)

// verifyFlags are the flags of verify.
type verifyFlags struct {
	provider, scheme, verifier   string
	secrets, publicKeys, options []string
	tolerance                    int
	hasTolerance                 bool

	at, method, url, bodyFile string
	headers                   []string

	fetch           bool
	published       KeySource
	vectors, output string
}

const verifyLong = `Verify a request as the gateway would, without a gateway, and print the result as
one line of JSON:

  {"verified":…,"scheme":…,"error":…,"event_type":…,"idempotency_key":…,"covers_body":…}

error begins with the reason of the failure: missing_header, missing_field, prefix,
encoding, malformed, timestamp, mismatch, credentials, key_not_found,
keys_unavailable or token. If the provider has several schemes and --scheme is not
given, all are tried. The result is that of the scheme that verifies the request,
else of the scheme that passed the most steps.

With --vectors, a file of test vectors is verified instead, and one line is printed
for each vector. docs/providers.md describes the format.

Exit codes: 0 the request is verified, or all vectors have the expected result;
1 otherwise; 2 wrong usage or configuration.`

// KeySource returns the cache of the keys that providers publish. It logs
// failed requests to stderr.
type KeySource func(stderr io.Writer) verify.Keys

// New returns the command. It calls published only for --fetch.
func New(published KeySource) *cobra.Command {
	f := verifyFlags{published: published}
	cmd := &cobra.Command{
		Use:   "verify --provider NAME --secret S [-H 'Name: value']… [--body-file F|-]",
		Short: "Verify a request offline and show why it fails",
		Long:  verifyLong,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(cmd.Flags().Changed); err != nil {
				return input.Usage(err)
			}
			if f.vectors != "" {
				return runVectors(cmd, f.vectors, f.keys(cmd))
			}
			return f.run(cmd)
		},
	}
	f.add(cmd)
	return cmd
}

func (f *verifyFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.provider, "provider", "", "id of the provider; see eventhook providers")
	flags.StringVar(&f.scheme, "scheme", "", "signature scheme of the provider; all by default")
	flags.StringVar(&f.verifier, "verifier", "", "verifier as JSON, or @FILE, instead of a provider")
	flags.StringArrayVar(&f.secrets, "secret", nil, "secret as the provider shows it; may be repeated; EVENTHOOK_SECRET by default")
	flags.StringArrayVar(&f.publicKeys, "public-key", nil, "public key, or @FILE; may be repeated")
	flags.StringArrayVar(&f.options, "option", nil, "option of the provider as name=value; may be repeated")
	flags.IntVar(&f.tolerance, "tolerance", 0, "maximum seconds between timestamp and receipt; the provider's by default; 0: not checked")
	flags.StringVar(&f.at, "at", "", "time of receipt: RFC 3339, or Unix seconds; now by default")
	flags.StringVar(&f.method, "method", http.MethodPost, "HTTP method")
	flags.StringVar(&f.url, "url", "", "URL that is registered at the provider, with the query")
	flags.StringArrayVarP(&f.headers, "header", "H", nil, "header as 'Name: value'; may be repeated")
	flags.StringVar(&f.bodyFile, "body-file", "", "file with the exact bytes of the body; - is standard input; empty by default")
	flags.BoolVar(&f.fetch, "fetch", false, "fetch the keys and certificates that the provider publishes")
	flags.StringVar(&f.vectors, "vectors", "", "file of test vectors in JSON; - is standard input")
	flags.StringVarP(&f.output, "output", "o", "json", "output format; only json")
}

// oneRequest are the flags that describe one request.
var oneRequest = []string{"provider", "scheme", "verifier", "secret", "public-key", "option", "tolerance", "at", "method", "url", "header", "body-file"}

// check fails for flags that cannot be combined.
func (f *verifyFlags) check(given func(flag string) bool) error {
	f.hasTolerance = given("tolerance")
	other := slices.IndexFunc(oneRequest, given)
	switch {
	case f.output != "json":
		return fmt.Errorf("--output %q, want json", f.output)
	case given("vectors") && f.vectors == "":
		return errors.New("--vectors requires a file, or -")
	case given("vectors") && other >= 0:
		return fmt.Errorf("--vectors cannot be combined with --%s", oneRequest[other])
	case given("vectors"):
		return nil
	case (f.provider == "") == (f.verifier == ""):
		return errors.New("exactly one of --provider and --verifier is required")
	case f.verifier != "" && (len(f.secrets)+len(f.publicKeys)+len(f.options) > 0 || f.scheme != "" || f.hasTolerance):
		return errors.New("--verifier cannot be combined with --scheme, --secret, --public-key, --option or --tolerance: put them into the verifier")
	}
	return nil
}

// keys returns the source of published keys, nil without --fetch.
func (f *verifyFlags) keys(cmd *cobra.Command) verify.Keys {
	if !f.fetch {
		return nil
	}
	return f.published(cmd.ErrOrStderr())
}

// result is the line of JSON that is printed. Its members are documented.
type result struct {
	Verified       bool    `json:"verified"`
	Scheme         string  `json:"scheme"`
	Error          *string `json:"error"`
	EventType      *string `json:"event_type"`
	IdempotencyKey *string `json:"idempotency_key"`
	CoversBody     bool    `json:"covers_body"`
}

func (f *verifyFlags) run(cmd *cobra.Command) error {
	specs, err := f.specs()
	if err != nil {
		return input.Usage(err)
	}
	request, err := f.request(cmd.InOrStdin())
	if err != nil {
		return input.Usage(err)
	}
	x, err := explainBest(cmd.Context(), specs, f.keys(cmd), request)
	if x.Scheme == "" {
		return err
	}
	if err != nil && x.Err != nil {
		_, _ = fmt.Fprintln(cmd.ErrOrStderr(), "another scheme of the provider was not tried:")
		terminal.PrintError(cmd.ErrOrStderr(), err)
	}
	if err := terminal.PrintLine(cmd.OutOrStdout(), result{Verified: x.Err == nil, Scheme: x.Scheme, Error: terminal.OrNull(verify.RefusalText(x.Err)),
		EventType: terminal.OrNull(x.Event.EventType), IdempotencyKey: terminal.OrNull(x.Event.IdempotencyKey), CoversBody: x.CoversBody}); err != nil {
		return err
	}
	if x.Err != nil {
		return terminal.ErrPrinted
	}
	return nil
}

// explainBest verifies a request with each configuration and returns the explanation
// of the one that verifies it, else of the one with the highest verify.Progress.
// Configurations that are not valid are skipped; err is the error of the first of
// them. If no configuration is valid, the explanation has no scheme.
func explainBest(ctx context.Context, specs []verify.Spec, keys verify.Keys, r *verify.Request) (best ingest.Explanation, err error) {
	var invalid error
	furthest := -1
	for _, s := range specs {
		sealed, err := json.Marshal(s)
		if err != nil {
			return best, err
		}
		x, err := ingest.Explain(ctx, eventhook.Source{Verifier: eventhook.NewSecret(string(sealed))}, "", keys, r)
		switch {
		case eventhook.KindOf(err) == eventhook.KindInvalid:
			if invalid == nil {
				invalid = err
			}
			continue
		case err != nil:
			return best, err
		}
		if far := verify.Progress(x.Err); far > furthest {
			best, furthest = x, far
		}
	}
	return best, invalid
}
