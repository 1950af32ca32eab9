package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/spf13/cobra"

	"github.com/eventhook/eventhook/configs"
	"github.com/eventhook/eventhook/internal/cli/input"
	"github.com/eventhook/eventhook/internal/cli/terminal"
)

func newHealth() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Ask the gateway on this machine whether it is ready",
		Long: `Ask the gateway on this machine whether it is ready, or with --live whether it runs.
The exit code is 0 or 1. Health checks of containers and scripts use this command, with the
configuration of the gateway: the address is management_listen, and with tls.cert_file the
request uses TLS. The certificate is not verified, since it names the public host.`,
		Args: cobra.NoArgs,
	}
	s := addSettings(cmd)
	live := cmd.Flags().Bool("live", false, "succeed if the process answers, also while its database does not")
	timeout := cmd.Flags().Duration("timeout", 5*time.Second, "time to wait for the answer")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, _, err := s.load(cmd)
		if err != nil {
			return err
		}
		path := "/health/ready"
		if *live {
			path = "/health/live"
		}
		url, err := managementURL(c, path)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeoutCause(cmd.Context(), *timeout, fmt.Errorf("no answer within %s", *timeout))
		defer cancel()
		status, err := askHealth(ctx, url)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(cmd.OutOrStdout(), terminal.Quote(status))
		return err
	}
	return cmd
}

// managementURL returns the URL of a path of the management listener, for requests from this
// machine.
func managementURL(c configs.Config, path string) (string, error) {
	host, port, err := net.SplitHostPort(c.ManagementListen)
	if err != nil {
		return "", err
	}
	if port == "0" {
		return "", input.Usagef("management_listen has port 0: give the address that the gateway printed, with --management-listen")
	}
	scheme := "http"
	if c.TLS.IsOn() {
		scheme = "https"
	}
	return scheme + "://" + net.JoinHostPort(loopbackOf(host), port) + path, nil
}

// loopbackOf returns a host on which a listener of the host can be reached from this machine.
func loopbackOf(host string) string {
	ip, err := netip.ParseAddr(host)
	switch {
	case host == "" || err == nil && ip.IsUnspecified() && ip.Is4():
		return "127.0.0.1"
	case err == nil && ip.IsUnspecified():
		return "::1"
	}
	return host
}

// askHealth returns the status in the answer of a health URL. It fails if the answer is not 200,
// with the status.
func askHealth(ctx context.Context, url string) (status string, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	client := http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // this machine's gateway; nothing secret is sent or believed
	}}
	defer client.CloseIdleConnections()
	resp, err := client.Do(r)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return "", terminal.ConnectError(err, url, "no gateway listens at "+url+"; if it has another address, give its --management-listen or --config")
	}
	defer func() { _ = resp.Body.Close() }()
	const maxBytes = 64 << 10
	var answer struct{ Status string }
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxBytes))
	if err != nil {
		return "", err
	}
	if err := json.Unmarshal(raw, &answer); err != nil || answer.Status == "" {
		return "", fmt.Errorf("%s is not a gateway's management listener: it answered %s", url, resp.Status)
	}
	if resp.StatusCode != http.StatusOK {
		return "", errors.New(terminal.Quote(answer.Status))
	}
	return answer.Status, nil
}
