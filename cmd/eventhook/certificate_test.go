package main

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/eventhook/eventhook/ingest"
	"github.com/eventhook/eventhook/internal/certfile/certfiletest"
	"github.com/eventhook/eventhook/internal/cli/clitest"
	"github.com/eventhook/eventhook/internal/cli/send"
	"github.com/eventhook/eventhook/internal/httpguard/httpguardtest"
	"github.com/eventhook/eventhook/internal/pgtest"
)

// tlsClient sends requests that trust only the certificate of f, over HTTP/2, each on a
// connection of its own.
func tlsClient(t *testing.T, f certfiletest.Files) *http.Client {
	return &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{ForceAttemptHTTP2: true, DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{RootCAs: f.Pool(t)}}}
}

// statusOf returns the status of a GET, or the error.
func statusOf(client *http.Client, url string) string {
	response, err := client.Get(url)
	if err != nil {
		return err.Error()
	}
	_ = response.Body.Close()
	return response.Proto + " " + response.Status
}

func TestBothListenersServeTLS(t *testing.T) {
	t.Parallel()
	expiresAt := time.Now().Add(48 * time.Hour).UTC().Truncate(time.Second)
	f := certfiletest.New(t, "first", expiresAt)
	i := startInstance(t, pgtest.New(t), "EVENTHOOK_TLS_CERT_FILE="+f.Cert, "EVENTHOOK_TLS_KEY_FILE="+f.Key)
	if !strings.HasPrefix(i.url, "https://") || !strings.HasPrefix(i.metrics, "https://") {
		t.Errorf("it prints %s and %s, want https", i.url, i.metrics)
	}
	client := tlsClient(t, f)
	management := strings.TrimSuffix(i.metrics, "/metrics")
	for _, url := range []string{i.url + "/docs", management + "/health/ready"} {
		if got := statusOf(client, url); got != "HTTP/2.0 200 OK" {
			t.Errorf("%s is answered %s, want 200 over HTTP/2", url, got)
		}
	}
	r, err := send.Sample{Provider: "github", ID: "1"}.Request(t.Context(), i.url+ingest.Path("acme", "github"), testSecret, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	answer, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Errorf("a webhook is answered %d, want 200", answer.StatusCode)
	}
	for _, url := range []string{i.url, management} {
		address := strings.TrimPrefix(url, "https://")
		got := httpguardtest.SendTLS(t, address, "POST /info HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
		if len(got) != 1 || !strings.HasPrefix(got[0], "400 ") {
			t.Errorf("an ambiguous request to %s is answered %q, want 400", url, got)
		}
	}
	var info struct {
		ExpiresAt time.Time `json:"tls_certificate_expires_at"`
	}
	response, err := client.Get(management + "/info")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if err := json.NewDecoder(response.Body).Decode(&info); err != nil || !info.ExpiresAt.Equal(expiresAt) {
		t.Errorf("/info says %s, %v; want %s", info.ExpiresAt, err, expiresAt)
	}
	i.wantReachedBy(f)
}

// wantReachedBy fails the test unless the commands of the program reach the instance, with the
// certificate as an authority.
func (i *instance) wantReachedBy(f certfiletest.Files) {
	i.t.Helper()
	for _, args := range [][]string{
		{"tenant", "list", "--server", i.url, "--key", testAdminKey},
		{"health", "--management-listen", strings.TrimSuffix(strings.TrimPrefix(i.metrics, "https://"), "/metrics")},
	} {
		cmd := exec.Command(os.Args[0], args...)
		cmd.Env = append(os.Environ(), "EVENTHOOK_TEST_AS_MAIN=1", "SSL_CERT_FILE="+f.Cert, "EVENTHOOK_TLS_CERT_FILE="+f.Cert, "EVENTHOOK_TLS_KEY_FILE="+f.Key)
		if out, err := cmd.CombinedOutput(); err != nil {
			i.t.Errorf("%s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

func TestSIGHUPReplacesTheCertificateUnlessItIsBroken(t *testing.T) {
	t.Parallel()
	f := certfiletest.New(t, "first", time.Now().Add(time.Hour))
	i := startInstance(t, pgtest.New(t), "EVENTHOOK_TLS_CERT_FILE="+f.Cert, "EVENTHOOK_TLS_KEY_FILE="+f.Key)
	reload := func(want string) {
		t.Helper()
		i.signal(syscall.SIGHUP)
		clitest.Eventually(t, "it logs "+want, func() bool { return strings.Contains(i.logs.String(), want) })
	}
	first := tlsClient(t, f)
	f.Break(t)
	reload("the TLS certificate cannot be replaced")
	if got := statusOf(first, i.url+"/docs"); got != "HTTP/2.0 200 OK" {
		t.Errorf("with a broken file it answers %s, want 200 with the former certificate", got)
	}
	f.Write(t, "second", time.Now().Add(2*time.Hour))
	reload("the TLS certificate was replaced")
	if got := statusOf(tlsClient(t, f), i.url+"/docs"); got != "HTTP/2.0 200 OK" {
		t.Errorf("with another certificate it answers %s, want 200", got)
	}
	if got := statusOf(first, i.url+"/docs"); !strings.Contains(got, "certificate") {
		t.Errorf("a client that trusts the former certificate gets %s, want an error", got)
	}
	i.stop()
}

func TestUnusableCertificateIsAnErrorOfTheConfiguration(t *testing.T) {
	f := certfiletest.New(t, "first", time.Now().Add(time.Hour))
	f.Break(t)
	for want, env := range map[string][]string{
		f.Cert:         {"EVENTHOOK_TLS_CERT_FILE=" + f.Cert, "EVENTHOOK_TLS_KEY_FILE=" + f.Key},
		"tls.key_file": {"EVENTHOOK_TLS_CERT_FILE=" + f.Cert},
	} {
		t.Run(want, func(t *testing.T) {
			for _, v := range env {
				name, value, _ := strings.Cut(v, "=")
				t.Setenv(name, value)
			}
			var stderr bytes.Buffer
			if code := run([]string{"check", "--data-dir", t.TempDir()}, &stderr, &stderr); code != 2 || !strings.Contains(stderr.String(), want) {
				t.Errorf("exit code %d and %s; want 2 and %s", code, &stderr, want)
			}
		})
	}
}
