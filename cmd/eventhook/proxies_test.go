package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/eventhook/eventhook/ingest"
	"github.com/eventhook/eventhook/internal/cli/clitest"
	"github.com/eventhook/eventhook/internal/pgtest"
)

const proxiedName = "hooks.example.com"

// reverseProxy is a proxy with the configuration of deploy/proxies in front of a gateway.
type reverseProxy struct {
	address string // of its TLS listener on loopback
	client  *http.Client
}

// proxyFiles are the certificate and the configuration of a proxy under test.
type proxyFiles struct{ dir, certificate, key, address string }

func newProxyFiles(t *testing.T) proxyFiles {
	t.Helper()
	dir := t.TempDir()
	f := proxyFiles{dir: dir, certificate: filepath.Join(dir, "cert.pem"), key: filepath.Join(dir, "key.pem")}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{proxiedName}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	f.write(t, "cert.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate})))
	f.write(t, "key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})))
	f.address = clitest.FreeAddress(t)
	return f
}

func (f proxyFiles) write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(f.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// example returns a file of deploy/proxies with replacements. Each replaced text must occur.
func (f proxyFiles) example(t *testing.T, name string, replacements ...string) string {
	t.Helper()
	raw, err := os.ReadFile("../../deploy/proxies/" + name)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(replacements); i += 2 {
		if !strings.Contains(string(raw), replacements[i]) {
			t.Fatalf("%s has no %q", name, replacements[i])
		}
	}
	return strings.NewReplacer(replacements...).Replace(string(raw))
}

func startNginx(t *testing.T, gateway *instance) *reverseProxy {
	t.Helper()
	program, f := serverProgram(t, "nginx"), newProxyFiles(t)
	site := f.example(t, "nginx.conf", "127.0.0.1:8080", strings.TrimPrefix(gateway.url, "http://"), "listen 443 ssl", "listen "+f.address+" ssl",
		"/etc/ssl/hooks.example.com.pem", f.certificate, "/etc/ssl/hooks.example.com.key", f.key)
	main := "daemon off;\npid nginx.pid;\nerror_log stderr warn;\nevents {}\nhttp {\naccess_log off;\n"
	for _, folder := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		main += folder + "_temp_path " + f.dir + ";\n"
	}
	if os.Geteuid() == 0 {
		main = "user root;\n" + main
	}
	config := f.write(t, "nginx.conf", main+"include "+f.write(t, "site.conf", site)+";\n}\n")
	return startProxy(t, f, program, "-p", f.dir, "-c", config)
}

func startCaddy(t *testing.T, gateway *instance) *reverseProxy {
	t.Helper()
	program, f := serverProgram(t, "caddy"), newProxyFiles(t)
	_, port, _ := net.SplitHostPort(f.address)
	management, err := url.Parse(gateway.metrics)
	if err != nil {
		t.Fatal(err)
	}
	site := f.example(t, "Caddyfile", "health_port 9980", "health_port "+management.Port(), "127.0.0.1:8080", strings.TrimPrefix(gateway.url, "http://"),
		proxiedName+" {", "https://"+proxiedName+":"+port+" {\n\tbind 127.0.0.1\n\ttls "+f.certificate+" "+f.key)
	config := f.write(t, "Caddyfile", "{\n\tadmin off\n\tauto_https off\n}\n"+site)
	return startProxy(t, f, program, "run", "--adapter", "caddyfile", "--config", config)
}

// startProxy starts a proxy and waits until it accepts connections. Its client connects from
// 127.0.0.2, which is not a trusted proxy.
func startProxy(t *testing.T, f proxyFiles, program string, args ...string) *reverseProxy {
	t.Helper()
	var log clitest.Buffer
	cmd := exec.Command(program, args...)
	cmd.Env = []string{"HOME=" + f.dir, "PATH=" + os.Getenv("PATH")}
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("%s logged\n%s", program, &log)
		}
	})
	clitest.Eventually(t, program+" accepts connections", func() bool {
		conn, err := net.Dial("tcp", f.address)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	return &reverseProxy{f.address, &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "tcp", f.address)
		},
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}}}
}

// request sends a request through the proxy. The caller closes the body of the answer.
func (p *reverseProxy) request(t *testing.T, method, path string, body []byte, header ...string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "https://"+proxiedName+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+testAdminKey)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	answer, err := p.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = answer.Body.Close() })
	return answer
}

// webhook sends a signed webhook through the proxy, with a forged address of the client.
func (p *reverseProxy) webhook(t *testing.T, body []byte) (status int, event string) {
	t.Helper()
	answer := p.request(t, http.MethodPost, ingest.Path("acme", "github"), body, "Content-Type", "application/json", "X-GitHub-Event", "push",
		"X-Hub-Signature-256", "sha256="+hexHMAC(testSecret, body), "X-Forwarded-For", "203.0.113.9")
	var accepted struct {
		EventID string `json:"event_id"`
	}
	_ = json.NewDecoder(answer.Body).Decode(&accepted) // checked by the status
	return answer.StatusCode, accepted.EventID
}

// The examples pass webhooks byte for byte with the address of the client, let the gateway limit bodies, and
// do not buffer streams.
func TestTheExamplesOfReverseProxies(t *testing.T) {
	t.Parallel()
	gateway := startInstance(t, pgtest.New(t), "EVENTHOOK_TRUSTED_PROXIES=127.0.0.1/32")
	for name, start := range map[string]func(*testing.T, *instance) *reverseProxy{"nginx": startNginx, "caddy": startCaddy} {
		t.Run(name, func(t *testing.T) {
			p := start(t, gateway)
			body := []byte("{\"ref\" :\t\"refs/heads/main\", \"by\":\"" + name + "\", \"bytes\":\"\\u00e9 é\"}\r\n")
			status, event := p.webhook(t, body)
			if status != http.StatusOK || gateway.payload(event) != string(body) {
				t.Fatalf("got %d and the body %q, want 200 and %q", status, gateway.payload(event), body)
			}
			var stored struct {
				SourceIP string `json:"source_ip"`
			}
			if gateway.call(http.MethodGet, "/events/"+event, nil, &stored); stored.SourceIP != "127.0.0.2" {
				t.Errorf("the client is %q, want 127.0.0.2", stored.SourceIP)
			}
			large := fmt.Appendf(nil, `{"by":%q,"large":%q}`, name, strings.Repeat("x", 900_000))
			if status, _ := p.webhook(t, large); status != http.StatusOK {
				t.Errorf("a body of %d bytes: got %d, want 200", len(large), status)
			}
			answer := p.request(t, http.MethodPost, ingest.Path("acme", "github"), bytes.Repeat([]byte("x"), 2<<20))
			var problem struct{ Code string }
			if err := json.NewDecoder(answer.Body).Decode(&problem); err != nil || answer.StatusCode != http.StatusRequestEntityTooLarge {
				t.Errorf("a body over the source's limit: got %s, %v, want the gateway's 413", answer.Status, err)
			}
			p.wantStream(t)
			claim := p.request(t, http.MethodPost, "/api/tenants/acme/eventhook/work/claim", []byte(`{"kinds":["none"],"wait_seconds":1}`), "Content-Type", "application/json")
			if claim.StatusCode != http.StatusOK {
				t.Errorf("a claim that waits: got %s, want 200", claim.Status)
			}
		})
	}
}

// wantStream sends webhooks until the open stream of events shows one.
func (p *reverseProxy) wantStream(t *testing.T) {
	t.Helper()
	stream := p.request(t, http.MethodGet, "/api/tenants/acme/eventhook/events/stream", nil)
	shown := make(chan bool, 1)
	go func() {
		for lines := bufio.NewScanner(stream.Body); lines.Scan(); {
			if strings.Contains(lines.Text(), `"github"`) {
				shown <- true
				return
			}
		}
		shown <- false
	}()
	n := 0
	clitest.Eventually(t, "the stream shows an event", func() bool {
		n++
		p.webhook(t, fmt.Appendf(nil, `{"stream":%q,"n":%d}`, p.address, n))
		select {
		case got := <-shown:
			return got
		default:
			return false
		}
	})
}
