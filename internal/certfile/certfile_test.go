package certfile_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventhook/eventhook/internal/certfile"
	"github.com/eventhook/eventhook/internal/certfile/certfiletest"
)

var (
	now  = time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	june = time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	july = time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC)
)

func load(t *testing.T, f certfiletest.Files) (*certfile.Pair, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	p, err := certfile.Load(certfile.Files(f), slog.New(slog.NewTextHandler(&log, nil)), func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	return p, &log
}

// name returns the name of the certificate that a server with the configuration sends.
func name(t *testing.T, config *tls.Config) string {
	t.Helper()
	c, err := config.GetCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(c.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	return leaf.Subject.CommonName
}

func TestWatchReplacesTheCertificateWhenItsContentChanges(t *testing.T) {
	f := certfiletest.New(t, "first", june)
	p, log := load(t, f)
	config := p.Config()
	if !p.ExpiresAt().Equal(june) {
		t.Errorf("it expires at %s, want %s", p.ExpiresAt(), june)
	}
	was, err := os.Stat(f.Cert)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- p.Watch(ctx, 10*time.Second) }()
		f.Write(t, "second", july)
		if err := os.Chtimes(f.Cert, was.ModTime(), was.ModTime()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(9 * time.Second)
		if got := name(t, config); got != "first" {
			t.Errorf("after 9 s it is %s, want first", got)
		}
		time.Sleep(2 * time.Second)
		if got := name(t, config); got != "second" || !p.ExpiresAt().Equal(july) {
			t.Errorf("after 11 s it is %s until %s, want second until %s", got, p.ExpiresAt(), july)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	if n := strings.Count(log.String(), "level="); n != 1 {
		t.Errorf("it logs %d lines, want 1:\n%s", n, log)
	}
}

func TestABrokenReplacementLeavesTheFormerCertificate(t *testing.T) {
	other := certfiletest.New(t, "other", july)
	for _, c := range []struct {
		claim   string
		destroy func(f certfiletest.Files) error
		want    string
	}{
		{"no PEM", func(f certfiletest.Files) error { return os.WriteFile(f.Cert, []byte("broken"), 0o600) }, "failed to find any PEM data"},
		{"another key", func(f certfiletest.Files) error { return os.Rename(other.Key, f.Key) }, "private key does not match public key"},
		{"empty", func(f certfiletest.Files) error { return os.WriteFile(f.Key, nil, 0o600) }, "failed to find any PEM data"},
		{"too large", func(f certfiletest.Files) error { return os.WriteFile(f.Cert, make([]byte, 2<<20), 0o600) }, "is larger than"},
		{"no file", func(f certfiletest.Files) error { return os.Remove(f.Cert) }, "no such file"},
	} {
		t.Run(c.claim, func(t *testing.T) {
			f := certfiletest.New(t, "first", june)
			p, log := load(t, f)
			config := p.Config()
			if err := c.destroy(f); err != nil {
				t.Fatal(err)
			}
			p.Reload()
			p.Reload()
			if got := name(t, config); got != "first" {
				t.Errorf("it is %s, want first", got)
			}
			if got := log.String(); strings.Count(got, "level=ERROR") != 1 || !strings.Contains(got, c.want) || strings.Contains(got, "PRIVATE") {
				t.Errorf("it logs %s, want one error with %q", got, c.want)
			}
			f.Write(t, "second", july)
			p.Reload()
			if got := name(t, config); got != "second" {
				t.Errorf("after the repair it is %s, want second", got)
			}
		})
	}
}

func TestAuthoritiesAreReplacedAndBrokenOnesAreNot(t *testing.T) {
	f, second := certfiletest.New(t, "first", june), certfiletest.New(t, "second", june)
	var log bytes.Buffer
	a, err := certfile.LoadAuthorities(f.Cert, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	first := a.Current()
	f.Break(t)
	a.Reload()
	a.Reload()
	if a.Current() != first || strings.Count(log.String(), "level=ERROR") != 1 {
		t.Errorf("a broken file is used, or logged more than once:\n%s", log.String())
	}
	if err := os.Rename(second.Cert, f.Cert); err != nil {
		t.Fatal(err)
	}
	a.Reload()
	if a.Current() == first || !strings.Contains(log.String(), "were replaced") {
		t.Errorf("the new file is not used:\n%s", log.String())
	}
	if _, err := certfile.LoadAuthorities(f.Key, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), f.Key) {
		t.Errorf("a key instead of certificates: got %v, want an error with its name", err)
	}
}

func TestEachFaultIsLoggedOnce(t *testing.T) {
	f := certfiletest.New(t, "first", june)
	good, err := os.ReadFile(f.Cert)
	if err != nil {
		t.Fatal(err)
	}
	p, log := load(t, f)
	for _, content := range []string{"broken", string(good), "broken"} {
		if err := os.WriteFile(f.Cert, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		p.Reload()
		p.Reload()
	}
	if n := strings.Count(log.String(), "level=ERROR"); n != 2 {
		t.Errorf("two faults, with the former file between them, log %d errors, want 2:\n%s", n, log)
	}
	f.Write(t, "expired", now.Add(-time.Hour))
	p.Reload()
	if !strings.Contains(log.String(), "has expired") {
		t.Errorf("a replacement that has expired logs no warning:\n%s", log)
	}
}

func TestLoadFailsAndWarns(t *testing.T) {
	f := certfiletest.New(t, "old", now.AddDate(0, -1, 0))
	if _, log := load(t, f); !strings.Contains(log.String(), "has expired") {
		t.Errorf("an expired certificate logs %q, want a warning", log)
	}
	f.Break(t)
	if _, err := certfile.Load(certfile.Files(f), slog.New(slog.DiscardHandler), time.Now); err == nil || !strings.Contains(err.Error(), f.Cert) {
		t.Errorf("a broken certificate: got %v, want an error with its name", err)
	}
}
