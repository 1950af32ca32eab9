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

// verifyFlags say what is verified, and how.
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

const verifyLong = `Verify one request as the gateway would, without a gateway, and print the
answer as one line of JSON:

  {"verified":…,"scheme":…,"error":…,"event_type":…,"idempotency_key":…,"covers_body":…}

error says which part failed, first in one word: missing_header, missing_field,
prefix, encoding, malformed, timestamp, mismatch, credentials, key_not_found,
keys_unavailable or token. Of a provider with several schemes, and without --scheme, each is tried;
told is the one that verifies, else the one that came furthest.

With --vectors, a file of requests whose answers are known is run instead, and
a line is printed for each. docs/providers.md has its format.

Exits with 0 if the request is verified, 1 if it is not (or if an answer is not
the one that its vector expects), and 2 for wrong usage or configuration.`

// KeySource returns the cache of the keys that providers publish. It logs
// failed requests to stderr.
type KeySource func(stderr io.Writer) verify.Keys

func New(published KeySource) *cobra.Command {
	f := verifyFlags{published: published}
	cmd := &cobra.Command{
		Use:   "verify --provider NAME --secret S [-H 'Name: value']… [--body-file F|-]",
		Short: "Verify a request offline, and say why if it fails",
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
	flags.StringVar(&f.provider, "provider", "", "the provider's id; see eventhook providers")
	flags.StringVar(&f.scheme, "scheme", "", "one of the provider's schemes; all by default")
	flags.StringVar(&f.verifier, "verifier", "", "instead of a provider, the verifier as JSON, or @FILE")
	flags.StringArrayVar(&f.secrets, "secret", nil, "a secret, as the provider shows it; repeat for several; EVENTHOOK_SECRET by default")
	flags.StringArrayVar(&f.publicKeys, "public-key", nil, "a public key, or @FILE; repeat for several")
	flags.StringArrayVar(&f.options, "option", nil, "an option of the provider as name=value; repeat for several")
	flags.IntVar(&f.tolerance, "tolerance", 0, "seconds between timestamp and receipt, instead of the provider's; 0: not judged")
	flags.StringVar(&f.at, "at", "", "when it was received: RFC 3339, or Unix seconds; now by default")
	flags.StringVar(&f.method, "method", http.MethodPost, "method")
	flags.StringVar(&f.url, "url", "", "the URL that is registered at the provider, with the query")
	flags.StringArrayVarP(&f.headers, "header", "H", nil, "a header as 'Name: value'; repeat for several")
	flags.StringVar(&f.bodyFile, "body-file", "", "file with the exact bytes of the body; - is standard input; empty by default")
	flags.BoolVar(&f.fetch, "fetch", false, "fetch keys and certificates that the provider publishes")
	flags.StringVar(&f.vectors, "vectors", "", "file of requests in JSON whose answers are known; - is standard input")
	flags.StringVarP(&f.output, "output", "o", "json", "json, the only format")
}

// oneRequest are the flags that say something of one request.
var oneRequest = []string{"provider", "scheme", "verifier", "secret", "public-key", "option", "tolerance", "at", "method", "url", "header", "body-file"}

// check finds flags that do not go together.
func (f *verifyFlags) check(given func(flag string) bool) error {
	f.hasTolerance = given("tolerance")
	other := slices.IndexFunc(oneRequest, given)
	switch {
	case f.output != "json":
		return fmt.Errorf("--output %q, want json", f.output)
	case given("vectors") && f.vectors == "":
		return errors.New("--vectors wants a file, or -")
	case given("vectors") && other >= 0:
		return fmt.Errorf("--vectors says all of each request: leave out --%s", oneRequest[other])
	case given("vectors"):
		return nil
	case (f.provider == "") == (f.verifier == ""):
		return errors.New("verify needs --provider or --verifier, and not both")
	case f.verifier != "" && (len(f.secrets)+len(f.publicKeys)+len(f.options) > 0 || f.scheme != "" || f.hasTolerance):
		return errors.New("--verifier says all by itself: put secrets, keys and tolerance into it")
	}
	return nil
}

// keys are the published keys; nil unless they may be fetched.
func (f *verifyFlags) keys(cmd *cobra.Command) verify.Keys {
	if !f.fetch {
		return nil
	}
	return f.published(cmd.ErrOrStderr())
}

// verdict is the line that is printed. Its members are part of the contract.
type verdict struct {
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
	if err := terminal.PrintLine(cmd.OutOrStdout(), verdict{Verified: x.Err == nil, Scheme: x.Scheme, Error: terminal.OrNull(verify.RefusalText(x.Err)),
		EventType: terminal.OrNull(x.Event.EventType), IdempotencyKey: terminal.OrNull(x.Event.IdempotencyKey), CoversBody: x.CoversBody}); err != nil {
		return err
	}
	if x.Err != nil {
		return terminal.ErrPrinted
	}
	return nil
}

// explainBest tries configurations in their order and returns the explanation
// of the one that verifies, else of the one that came furthest. Those that are
// not valid do not count: the first one's error comes beside the explanation,
// or alone, with an explanation without a scheme, if none is valid.
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
