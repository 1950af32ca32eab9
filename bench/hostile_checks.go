package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/eventhook/eventhook/bench/seed"
	"github.com/eventhook/eventhook/ingest"
)

// longLists requests lists that scan many events. The events of the hostile tenant are
// inserted by SQL.
func (h *hostile) longLists(ctx context.Context) (flood, error) {
	const events, sources, callers = 300_000, 2, 50
	if err := h.source(ctx, benchSource, plainHMAC(nil)); err != nil {
		return nil, err
	}
	db, err := seed.Open(ctx, h.stats.conn, hostileTenant, benchSource, events, sources)
	if err != nil {
		return nil, err
	}
	if err := db.Insert(ctx, seed.SourceCopies, seed.Events); err != nil {
		return nil, err
	}
	if err := seed.Vacuum(ctx, h.stats.conn); err != nil {
		return nil, err
	}
	return newFlood(callers, func(ctx context.Context) {
		_, _ = h.callAPI(ctx, http.MethodGet, "/events?status=delivered&limit=250", nil)
		_, _ = h.callAPI(ctx, http.MethodGet, "/events?status=dead&event_type=none", nil)
	}), nil
}

// changedDestination changes the URL of a subscription without repeating its
// credentials.
func (h *hostile) changedDestination(ctx context.Context) error {
	var created struct{ ID string }
	body := map[string]any{"name": "s", "url": "http://127.0.0.1:1/", "event_types": []string{"harm"}, "auth_header": "Bearer secret"}
	if err := h.create(ctx, h.key, hostilePath("/subscriptions"), body, &created); err != nil {
		return err
	}
	return h.wantStatus(http.StatusUnprocessableEntity)(h.callAPI(ctx, http.MethodPatch, "/subscriptions/"+created.ID, map[string]string{"url": "http://127.0.0.1:2/"}))
}

// wantStatus returns a function that fails unless a call was answered with the status.
func (h *hostile) wantStatus(status int) func(int, error) error {
	return func(got int, err error) error {
		if err == nil && got != status {
			err = fmt.Errorf("answered %d, want %d", got, status)
		}
		return err
	}
}

// anyTopic creates an SNS source without a topic.
func (h *hostile) anyTopic(ctx context.Context) error {
	return h.wantStatus(http.StatusUnprocessableEntity)(h.callAPI(ctx, http.MethodPost, "/sources", map[string]string{"slug": "sns", "name": "sns", "provider": "aws-sns"}))
}

// resentBody sends one signed body with other content types.
func (h *hostile) resentBody(ctx context.Context) error {
	source := map[string]any{"slug": "again", "name": "again", "verifier": plainHMAC(nil), "idempotency_key_paths": []string{"body.id"}}
	if err := h.create(ctx, h.key, hostilePath("/sources"), source, nil); err != nil {
		return err
	}
	body := []byte(`{"id":"1"}`)
	for i, contentType := range []string{"application/json", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/xml"} {
		want := `"status":"duplicate"`
		if i == 0 {
			want = `"status":"accepted"`
		}
		status, answer, err := h.post(ctx, "again", body, signatureOf(body), "Content-Type", contentType)
		if err != nil {
			return err
		}
		if status != http.StatusOK || !bytes.Contains(answer, []byte(want)) {
			return fmt.Errorf("%s: answered %d %s, want %s", contentType, status, answer, want)
		}
	}
	return nil
}

// copiedSecret copies the bench tenant's sealed verifier to a source of the hostile
// tenant, and signs with the bench tenant's secret.
func (h *hostile) copiedSecret(ctx context.Context) error {
	if err := h.source(ctx, "copied", plainHMAC(map[string]any{"secrets": []string{"another-secret-of-its-own"}})); err != nil {
		return err
	}
	_, err := h.stats.conn.Exec(ctx, `UPDATE eventhook.source SET verifier = (SELECT s.verifier FROM eventhook.source s
		JOIN eventhook.tenant t ON t.id = s.tenant_id WHERE t.slug = $1 AND s.slug = $2) WHERE slug = 'copied'`, benchTenant, benchSource)
	if err != nil {
		return err
	}
	status, answer, err := h.post(ctx, "copied", []byte(`{}`), signatureOf([]byte(`{}`)), "X-Hub-Signature-256", "sha256="+fmt.Sprintf("%x", sign([]byte(`{}`))))
	if err == nil && status == http.StatusOK {
		err = fmt.Errorf("the copied secret opened: %s", answer)
	}
	return err
}

// smuggledAndInherited sends a request with two lengths that contains a second
// request, and searches for secrets in the environment of the private PostgreSQL.
func (h *hostile) smuggledAndInherited(ctx context.Context) error {
	if err := h.smuggle(ctx); err != nil {
		return err
	}
	raw, err := os.ReadFile(filepath.Join(h.dir, "postgres", "postmaster.pid"))
	if err != nil {
		return err
	}
	postmaster, _, _ := strings.Cut(string(raw), "\n")
	environment, err := os.ReadFile(filepath.Join("/proc", postmaster, "environ"))
	if err == nil && bytes.Contains(environment, []byte("EVENTHOOK_")) {
		err = fmt.Errorf("the private PostgreSQL has inherited the gateway's environment")
	}
	return err
}

func (h *hostile) smuggle(ctx context.Context) error {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", h.to.address)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	const inner = "GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n"
	_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n%s", ingest.Path(benchTenant, benchSource), inner)
	if err != nil {
		return err
	}
	const patience = 5 * time.Second
	if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	answers, err := io.ReadAll(bufio.NewReader(conn))
	if err == nil && bytes.Count(answers, []byte("HTTP/1.1 ")) != 1 {
		err = fmt.Errorf("a request with two lengths was answered with %q", answers[:min(len(answers), 500)])
	}
	return err
}
