package main

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook/internal/cli/clitest"
	"github.com/eventhook/eventhook/internal/pgtest"
)

// planted generates recognizable secrets and finds them in texts.
type planted struct {
	secrets []string
}

func (p *planted) secret(where string) string {
	p.secrets = append(p.secrets, "planted-"+where+"-7f3a9c")
	return p.secrets[len(p.secrets)-1]
}

// in lists the planted secrets in a text: plain, in hex or in base64.
func (p *planted) in(text string) (found []string) {
	for _, s := range p.secrets {
		for _, form := range []string{s, hex.EncodeToString([]byte(s)), base64.StdEncoding.EncodeToString([]byte(s)), base64.RawURLEncoding.EncodeToString([]byte(s))} {
			if strings.Contains(text, form) && !slices.Contains(found, s) {
				found = append(found, s)
			}
		}
	}
	return found
}

// want fails the test if a text contains a planted secret.
func (p *planted) want(t *testing.T, what, text string) {
	t.Helper()
	for _, s := range p.in(text) {
		at := max(0, strings.Index(text, s)-100)
		t.Errorf("%s contains %q: …%.250s", what, s, text[at:])
	}
}

// dump returns all rows of the database as text.
func dump(t *testing.T, dsn string) string {
	t.Helper()
	conn := connect(t, dsn)
	rows, err := conn.Query(t.Context(), `SELECT format('%I.%I', n.nspname, c.relname) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = 'eventhook' AND c.relkind = 'r'`)
	if err != nil {
		t.Fatal(err)
	}
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(tables) == 0 {
		t.Fatalf("%d tables, %v", len(tables), err)
	}
	var all strings.Builder
	for _, table := range tables {
		rows, err := conn.Query(t.Context(), `SELECT r::text FROM `+table+` r`)
		if err != nil {
			t.Fatal(err)
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&all, "%s\n%s\n", table, strings.Join(lines, "\n"))
	}
	return all.String()
}

// caller sends requests and stores all answers.
type caller struct {
	*instance
	answers strings.Builder
}

func (c *caller) send(method, path, authorization, body string, headers ...string) (int, []byte) {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), method, c.url+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("Authorization", authorization)
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := testClient.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	fmt.Fprintf(&c.answers, "%s %s answered %d %v %s\n", method, path, resp.StatusCode, resp.Header, raw)
	return resp.StatusCode, raw
}

// must sends a request with the admin key and fails the test unless the status is as
// expected.
func (c *caller) must(status int, method, path, body string) []byte {
	c.t.Helper()
	got, raw := c.send(method, path, "Bearer "+testAdminKey, body)
	if got != status {
		c.t.Fatalf("%s %s answered %d %s, want %d", method, path, got, raw, status)
	}
	return raw
}

// readEverything calls every GET operation of the OpenAPI document for acme, with the
// ids that the lists contain. It returns the number of requests.
func (c *caller) readEverything(slugs []string) (requests int) {
	c.t.Helper()
	var doc struct {
		Paths map[string]map[string]json.RawMessage
	}
	if err := json.Unmarshal(c.must(200, "GET", "/openapi.json", ""), &doc); err != nil {
		c.t.Fatal(err)
	}
	for path, methods := range doc.Paths {
		if methods["get"] == nil || strings.HasSuffix(path, "/stream") { // the stream does not end
			continue
		}
		for _, slug := range slugs {
			at := strings.NewReplacer("{tenant}", "acme", "{slug}", slug, "{name}", "push").Replace(path)
			for _, id := range c.ids(at) {
				c.send("GET", strings.ReplaceAll(at, "{id}", id), "Bearer "+testAdminKey, "")
				requests++
			}
		}
	}
	return requests
}

// ids returns the ids in the list to which a path with {id} belongs.
func (c *caller) ids(path string) []string {
	before, _, has := strings.Cut(path, "/{id}")
	if !has {
		return []string{""}
	}
	_, raw := c.send("GET", before, "Bearer "+testAdminKey, "")
	var list struct{ Items []struct{ ID string } }
	_ = json.Unmarshal(raw, &list)
	var all []string
	for _, item := range list.Items {
		all = append(all, item.ID)
	}
	return all
}

// The test enters secrets wherever the API and the configuration accept one, in valid
// and invalid requests. It then searches the database, the log, the metrics, the output
// of commands and all answers for them.
func TestNoSecretsInOutputsAndDatabase(t *testing.T) {
	p, dsn, T := &planted{}, pgtest.New(t), "/api/tenants/acme/eventhook"
	p.secrets = append(p.secrets, testAdminKey, testEncryptionKey, testSecret)
	i := &caller{instance: startInstance(t, dsn, "EVENTHOOK_LOG_LEVEL=debug")}
	asSecret := func(where string) string { return `"` + p.secret(where) + `"` }

	// Secrets in the members for secrets.
	i.must(201, "POST", T+"/sources", `{"slug":"hub","name":"Hub","provider":"github","secrets":[`+asSecret("old")+`,`+asSecret("older")+`]}`)
	i.must(200, "PATCH", T+"/sources/hub", `{"secrets":[`+asSecret("new")+`]}`)
	token, password := p.secret("token"), p.secret("password")
	i.must(201, "POST", T+"/sources", `{"slug":"token","name":"T","verifier":{"type":"api_key","header":"X-Token","values":["`+token+`"]}}`)
	i.must(201, "POST", T+"/sources", `{"slug":"basic","name":"B","verifier":{"type":"basic_auth","username":"u","password":"`+password+`"}}`)
	i.must(201, "POST", T+"/sources", `{"slug":"whatsapp","name":"W","provider":"meta","secrets":[`+asSecret("app")+`],"options":{"verify_token":`+asSecret("verify")+`}}`)
	i.must(201, "POST", T+"/sources/hub/routes", `{"name":"calls","targets":[{"type":"http","url":"https://internal.invalid/hook","auth_header":`+asSecret("auth")+`}]}`)
	var key struct{ Key string }
	if err := json.Unmarshal(i.must(201, "POST", "/api/admin/tenants/acme/keys", `{"name":"k","scopes":["read","manage"]}`), &key); err != nil {
		t.Fatal(err)
	}
	i.answers.Reset() // the creation of a key returns it
	p.secrets = append(p.secrets, key.Key)

	// Secrets in other members, and malformed.
	for n, wrong := range []string{
		`{"slug":"x","name":"x","secret":%s}`, `{"slug":"x","name":"x","provider":"github","secrets":%s}`,
		`{"slug":"x","name":"x","verifier":{"type":"hmac","header":"X","values":[%s]}}`,
		`{"slug":"x","name":"x","verifier":{"type":"public_key","header":"X","public_keys":[%s]}}`,
		`{"slug":"x","name":"x","verifier":{"type":"basic_auth","username":"","password":%s}}`,
		`{"slug":"x","name":"x","provider":"svix","secrets":[%s,`, `{"slug":"x","name":"x","provider":"svix","secrets":[%s]}`,
	} {
		status, raw := i.send("POST", T+"/sources", "Bearer "+testAdminKey, fmt.Sprintf(wrong, asSecret(fmt.Sprintf("wrong-%d", n))))
		if status < 400 {
			t.Errorf("%s answered %d %s", wrong, status, raw)
		}
	}
	for n, wrong := range []string{
		`{"type":"http","url":"https://x:%s@internal.invalid"}`, `{"type":"http","url":"https://internal.invalid","headers":{"Authorization":"%s"}}`,
		`{"type":"http","url":"https://internal.invalid","auth_header":"%s\n"}`, `{"type":"http","url":"https://internal.invalid","auth_header":["%s"]}`,
	} {
		target := fmt.Sprintf(wrong, p.secret(fmt.Sprintf("wrong-target-%d", n)))
		if status, raw := i.send("POST", T+"/sources/hub/routes", "Bearer "+testAdminKey, `{"name":"wrong","targets":[`+target+`]}`); status != 422 {
			t.Errorf("%s answered %d %s", target, status, raw)
		}
	}
	i.send("GET", T+"/events", "Bearer "+p.secret("not-a-key"), "")

	// Secrets in valid and forged requests.
	basic := "Basic " + base64.StdEncoding.EncodeToString([]byte("u:"+password))
	for source, credentials := range map[string][]string{"token": {"X-Token", token}, "basic": {"Authorization", basic}, "hub": nil, "github": nil} {
		i.send("POST", T+"/in/"+source, "Bearer "+p.secret("bearer-"+source), `{"n":1}`, append(credentials, "Cookie", "session="+p.secret("cookie-"+source))...)
		i.send("POST", T+"/in/"+source, "Bearer "+p.secret("forged-"+source), `{"n":1}`, "X-Token", p.secret("forged-token-"+source), "X-Hub-Signature-256", "sha256=00")
	}
	if _, _, err := i.push(t.Context(), "1"); err != nil {
		t.Fatal(err)
	}
	i.must(200, "POST", T+"/sources/hub/test", `{"headers":{"X-Hub-Signature-256":"sha256=00"},"body":"{}"}`)
	clitest.Eventually(t, "the refusals are written", func() bool {
		return bytes.Contains(i.must(200, "GET", T+"/sources/token/rejections", ""), []byte(`"reason"`))
	})

	if requests := i.readEverything([]string{"github", "hub", "token", "basic", "whatsapp"}); requests < 50 {
		t.Errorf("%d requests were sent, want one for each operation", requests)
	}
	metrics, err := testClient.Get(i.metrics)
	if err != nil {
		t.Fatal(err)
	}
	defer metrics.Body.Close()
	page, err := io.ReadAll(metrics.Body)
	if err != nil {
		t.Fatal(err)
	}
	exported := filepath.Join(t.TempDir(), "export", "--database")
	var printed bytes.Buffer
	t.Setenv("DATABASE_URL", dsn)
	t.Setenv("EVENTHOOK_ADMIN_KEY", testAdminKey)
	t.Setenv("EVENTHOOK_ENCRYPTION_KEYS", testEncryptionKey)
	if code := run([]string{"export", "--database", "-o", exported}, &printed, &printed); code != 0 {
		t.Errorf("export exits with %d: %s", code, printed.String())
	}
	files, err := filepath.Glob(exported + "/*")
	if err != nil || len(files) == 0 {
		t.Fatalf("exported %d files, %v", len(files), err)
	}
	for _, name := range files {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		printed.Write(raw)
	}
	i.stop()

	stored := dump(t, dsn)
	p.want(t, "the database", stored)
	p.want(t, "the log", i.logs.String())
	p.want(t, "an answer", i.answers.String())
	p.want(t, "the metrics", string(page))
	p.want(t, "an export", printed.String())
	if !strings.Contains(stored, "enc2:") || !strings.Contains(stored, hex.EncodeToString([]byte("[redacted]"))) {
		t.Error("the database contains no sealed value or no stored header, so the test proves nothing")
	}
}
