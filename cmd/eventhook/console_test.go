package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook/internal/pgtest"
)

// consoleBrowser is a browser at the console of a gateway.
type consoleBrowser struct {
	*testing.T
	at      *instance
	forward string // X-Forwarded-For of its requests; "" for none
	cookies map[string]string
}

func newConsoleBrowser(t *testing.T, at *instance, forward string) *consoleBrowser {
	return &consoleBrowser{t, at, forward, map[string]string{}}
}

// send sends a request and keeps the cookies of the answer. The caller closes its body.
func (b *consoleBrowser) send(method, path string, form url.Values) *http.Response {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
	b.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, method, b.at.url+path, strings.NewReader(form.Encode()))
	if err != nil {
		b.Fatal(err)
	}
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if b.forward != "" {
		r.Header.Set("X-Forwarded-For", b.forward)
	}
	for name, value := range b.cookies {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	answer, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range answer.Cookies() {
		b.cookies[c.Name] = c.Value
		if c.MaxAge < 0 {
			delete(b.cookies, c.Name)
		}
	}
	return answer
}

// want sends a request and returns the body of the answer, which must have a status.
func (b *consoleBrowser) want(status int, method, path string, form url.Values) string {
	b.Helper()
	answer := b.send(method, path, form)
	defer answer.Body.Close()
	raw, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != status {
		b.Fatalf("%s %s: got %d, %v, want %d:\n%s", method, path, answer.StatusCode, err, status, raw)
	}
	return string(raw)
}

// act sends a form with the token of a page.
func (b *consoleBrowser) act(want int, path string, form url.Values) {
	b.Helper()
	_, after, _ := strings.Cut(b.want(http.StatusOK, http.MethodGet, "/console/t/acme/events", nil), `data-csrf="`)
	token, _, _ := strings.Cut(after, `"`)
	form.Set("csrf", token)
	b.want(want, http.MethodPost, path, form)
}

func (b *consoleBrowser) signIn(key string) {
	b.Helper()
	b.want(http.StatusSeeOther, http.MethodPost, "/console/sign-in", url.Values{"key": {key}})
}

// admin calls an operation of the API with the admin key.
func (i *instance) admin(method, path string, body, answer any) {
	i.t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		i.t.Fatal(err)
	}
	r, err := http.NewRequest(method, i.url+path, bytes.NewReader(raw))
	if err != nil {
		i.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+testAdminKey)
	r.Header.Set("Content-Type", "application/json")
	got, err := testClient.Do(r)
	if err != nil {
		i.t.Fatal(err)
	}
	defer got.Body.Close()
	if raw, err = io.ReadAll(got.Body); err == nil && answer != nil {
		err = json.Unmarshal(raw, answer)
	}
	if err != nil || got.StatusCode/100 != 2 {
		i.t.Fatalf("%s %s: got %d %s, %v", method, path, got.StatusCode, raw, err)
	}
}

func TestAuditLogKnowsTheBrowserOfAnAct(t *testing.T) {
	t.Parallel()
	dsn := pgtest.New(t)
	direct, behind := startInstance(t, dsn), startInstance(t, dsn, "EVENTHOOK_TRUSTED_PROXIES=127.0.0.0/8")
	for _, c := range []struct {
		claim string
		at    *instance
		want  string
	}{{"without a proxy", direct, "127.0.0.1"}, {"behind a proxy", behind, "198.51.100.7"}} {
		b := newConsoleBrowser(t, c.at, "203.0.113.9, 198.51.100.7")
		b.signIn(testAdminKey)
		b.act(http.StatusOK, "/console/t/acme/keys/new", url.Values{"name": {"reader"}, "scopes": {"read"}})
		b.act(http.StatusSeeOther, "/console/sign-out", url.Values{})
		type entry struct {
			Action   string
			Via      string
			SourceIP string `json:"source_ip"`
		}
		var log struct{ Items []entry }
		c.at.admin(http.MethodGet, "/api/admin/audit?limit=3", nil, &log)
		want := []entry{{"session.ended", "console", c.want}, {"api_key.created", "console", c.want}, {"session.started", "console", c.want}}
		if diff := cmp.Diff(want, log.Items); diff != "" {
			t.Errorf("%s, the newest first (-want +got):\n%s", c.claim, diff)
		}
	}
}

// openStream opens a stream of events and waits for its first heartbeat. The channel gets the error with
// which the stream ends; nil if the gateway ends it.
func (b *consoleBrowser) openStream() <-chan error {
	b.Helper()
	answer := b.send(http.MethodGet, "/console/t/acme/stream", nil)
	lines, ended := bufio.NewScanner(answer.Body), make(chan error, 1)
	for lines.Scan() && lines.Text() != "event: heartbeat" {
	}
	if lines.Err() != nil || lines.Text() == "" {
		b.Fatalf("the stream has no heartbeat: %d, %v", answer.StatusCode, lines.Err())
	}
	go func() {
		defer answer.Body.Close()
		_, err := io.Copy(io.Discard, answer.Body)
		ended <- err
	}()
	return ended
}

func TestStreamOfTheConsoleEndsWithItsSessionAndItsKey(t *testing.T) {
	t.Parallel()
	i := startInstance(t, pgtest.New(t))
	i.admin(http.MethodPost, "/api/admin/tenants", map[string]string{"slug": "umbrella", "name": "Umbrella"}, nil)
	var key struct{ ID, Key string }
	i.admin(http.MethodPost, "/api/admin/tenants/acme/keys", map[string]any{"name": "reader", "scopes": []string{"read"}}, &key)
	b := newConsoleBrowser(t, i, "")
	b.want(http.StatusUnauthorized, http.MethodGet, "/console/t/acme/stream", nil)
	b.signIn(key.Key)
	b.want(http.StatusNotFound, http.MethodGet, "/console/t/umbrella/stream", nil)
	end := func(claim string, stream <-chan error) {
		t.Helper()
		if err := <-stream; err != nil {
			t.Errorf("%s, got %v, want the end of the stream", claim, err)
		}
	}
	stream := b.openStream()
	b.act(http.StatusSeeOther, "/console/sign-out", url.Values{})
	end("after the sign-out", stream)
	b.signIn(key.Key)
	stream = b.openStream()
	i.admin(http.MethodDelete, "/api/admin/tenants/acme/keys/"+key.ID, nil, nil)
	end("after its key was deleted", stream)
	b.want(http.StatusSeeOther, http.MethodGet, "/console/t/acme/events", nil)
}

func TestRefusalOfAnExpiredKeyIsAudited(t *testing.T) {
	t.Parallel()
	dsn := pgtest.New(t)
	i := startInstance(t, dsn)
	var key struct{ ID, Key string }
	i.admin(http.MethodPost, "/api/admin/tenants/acme/keys", map[string]any{"name": "former", "scopes": []string{"read"}}, &key)
	execute(t, dsn, `UPDATE eventhook.api_key SET expires_at = now() - interval '1 hour' WHERE name = 'former'`)
	b := newConsoleBrowser(t, i, "")
	for _, text := range []string{key.Key, "ehk_unknown"} {
		b.want(http.StatusUnauthorized, http.MethodPost, "/console/sign-in", url.Values{"key": {text}})
	}
	var log struct {
		Items []struct{ Actor struct{ ID, Name string } }
	}
	i.admin(http.MethodGet, "/api/admin/audit?tenant=acme&action=session.refused", nil, &log)
	if len(log.Items) != 1 || log.Items[0].Actor.Name != "former" || log.Items[0].Actor.ID != key.ID {
		t.Errorf("entries, got %+v, want the one of the key", log.Items)
	}
}
