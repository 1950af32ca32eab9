package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"
)

func newSend() *cobra.Command {
	var s sample
	var url, secret, bodyFile string
	cmd := &cobra.Command{
		Use:   "send github|stripe --secret SECRET --url URL",
		Short: "Sign a sample webhook of a provider and send it",
		Long: `Sign a sample webhook of a provider and send it to any URL. Prints the
answer; succeeds if it is 2xx. Send the same --id twice to see a duplicate.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s.provider = args[0]
			if secret == "" {
				secret = os.Getenv("EVENTHOOK_SECRET")
			}
			if url == "" || secret == "" {
				return usageError{fmt.Errorf("send needs --url and --secret")}
			}
			if bodyFile != "" {
				var err error
				if s.body, err = readFileOrStdin(bodyFile, cmd.InOrStdin()); err != nil {
					return usageError{err}
				}
			}
			r, err := s.request(cmd.Context(), url, secret, time.Now())
			if err != nil {
				return err
			}
			return sendAndPrint(r, cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&url, "url", "", "where to send it")
	flags.StringVar(&secret, "secret", "", "the source's secret; EVENTHOOK_SECRET by default")
	flags.StringVar(&s.eventType, "type", "", "event type, such as push or payment_intent.created")
	flags.StringVar(&s.id, "id", "", "delivery id; a new one by default")
	flags.StringVar(&s.paymentID, "payment", "", "id of the payment intent (stripe)")
	flags.StringVar(&bodyFile, "body-file", "", "body to send instead of the sample; - is standard input")
	return cmd
}

func readFileOrStdin(name string, stdin io.Reader) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(stdin)
	}
	return os.ReadFile(name)
}

func sendAndPrint(r *http.Request, w io.Writer) error {
	const patience, most = 30 * time.Second, 64 << 10
	client := &http.Client{Timeout: patience}
	resp, err := client.Do(r)
	if err != nil {
		return fmt.Errorf("send: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, most))
	if err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	if _, err := fmt.Fprintf(w, "%s\n%s\n", resp.Status, answer); err != nil {
		return err
	}
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("the answer is %s", resp.Status)
	}
	return nil
}
