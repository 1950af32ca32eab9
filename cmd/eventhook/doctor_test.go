package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eventhook/eventhook/configs"
	"github.com/eventhook/eventhook/internal/certfile/certfiletest"
	"github.com/eventhook/eventhook/internal/cli/clitest"
	"github.com/eventhook/eventhook/internal/natstest"
	"github.com/eventhook/eventhook/internal/pg"
	"github.com/eventhook/eventhook/internal/pgtest"
)

// examine runs doctor without outbound requests. It returns the findings by check.
func examine(t *testing.T, args ...string) (code int, found map[string][]finding) {
	t.Helper()
	got := runCommand(append([]string{"doctor", "-o", "json", "--probe-url="}, args...)...)
	var report struct{ Findings []finding }
	if err := json.Unmarshal([]byte(got.Stdout), &report); err != nil {
		t.Fatalf("doctor printed %q and %q: %v", got.Stdout, got.Stderr, err)
	}
	found = map[string][]finding{}
	for _, f := range report.Findings {
		found[f.Check] = append(found[f.Check], f)
		if (f.Status == findingFailed || f.Status == findingWarning) && f.Change == "" {
			t.Errorf("the finding %+v does not say what to change", f)
		}
		for _, secret := range []string{testAdminKey, testEncryptionKey, "s3cr3t"} {
			if strings.Contains(f.Detail+f.Change, secret) {
				t.Errorf("the finding %+v contains a secret", f)
			}
		}
	}
	return got.Code, found
}

func wantFinding(t *testing.T, found map[string][]finding, check, status, part string) {
	t.Helper()
	if !slices.ContainsFunc(found[check], func(f finding) bool { return f.Status == status && strings.Contains(f.Detail, part) }) {
		t.Errorf("%s: found %+v, want one that is %s with %q", check, found[check], status, part)
	}
}

func execute(t *testing.T, dsn string, statements ...string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	for _, sql := range statements {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
}

func TestDoctorOfAHealthyGateway(t *testing.T) {
	dsn := pgtest.New(t)
	gateway := startInstance(t, dsn)
	configured(t, dsn)
	t.Setenv("EVENTHOOK_PUBLIC_URL", gateway.url)
	t.Setenv("EVENTHOOK_LISTEN", strings.TrimPrefix(gateway.url, "http://"))
	_, found := examine(t)
	for check, part := range map[string]string{"configuration": "", "roles": "every role", "database version": "PostgreSQL", "clock": "ahead",
		"database schema": "this program's", "partitions": "exist", "encryption keys": "opens the canary", "public URL": "a gateway answers there (version dev)"} {
		wantFinding(t, found, check, findingOK, part)
	}
	if got := runCommand("doctor", "--probe-url="); !strings.Contains(got.Stdout, "ok       encryption keys: ") || !strings.Contains(got.Stdout, " failed, ") {
		t.Errorf("printed %s", got.Stdout)
	}
	another := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"info":{"title":"Eventhook","version":"0.1"}}`))
	}))
	defer another.Close()
	t.Setenv("EVENTHOOK_PUBLIC_URL", another.URL)
	_, found = examine(t)
	wantFinding(t, found, "public URL", findingWarning, "is version 0.1, and the gateway on this machine is version dev")
}

func TestDoctorFindsAnotherProgramAtThePublicURL(t *testing.T) {
	program := httptest.NewServer(http.NotFoundHandler())
	defer program.Close()
	configured(t, "postgres://u:s3cr3t@127.0.0.1:1/x")
	t.Setenv("EVENTHOOK_LISTEN", "127.0.0.1:1") // no gateway
	t.Setenv("EVENTHOOK_PUBLIC_URL", program.URL)
	_, found := examine(t)
	wantFinding(t, found, "public URL", findingFailed, "another program answers there, with status 404")
	program.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	_, found = examine(t)
	wantFinding(t, found, "public URL", findingSkipped, "with status 502")
}

func TestDoctorLooksAtTheLogOfWebhooks(t *testing.T) {
	servers := natstest.New(t, func(o *server.Options) { o.Username, o.Password = "gateway", "s3cr3t" })
	configured(t, "postgres://u:s3cr3t@127.0.0.1:1/x")
	t.Setenv("EVENTHOOK_INGEST_LOG_REPLICAS", "1")
	at := func(password string) {
		t.Setenv("EVENTHOOK_INGEST_LOG_URL", "nats://gateway:"+password+"@"+servers.Address())
	}
	const check = "log of webhooks"
	at("s3cr3t-of-another")
	_, found := examine(t)
	wantFinding(t, found, check, findingFailed, "Authorization Violation")
	at("s3cr3t")
	_, found = examine(t)
	wantFinding(t, found, check, findingOK, "creates the stream EVENTHOOK_INGEST")
	js := servers.Connect(nats.UserInfo("gateway", "s3cr3t"))
	for name, subject := range map[string]string{"EVENTHOOK_INGEST": "EVENTHOOK_INGEST.events.*", "EVENTHOOK_INGEST_DEAD": "EVENTHOOK_INGEST.dead"} {
		if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: name, Subjects: []string{subject}}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := js.Publish(t.Context(), "EVENTHOOK_INGEST.events.x", nil); err != nil {
		t.Fatal(err)
	}
	_, found = examine(t)
	wantFinding(t, found, check, findingOK, "waiting webhooks: 1,")
	if _, err := js.Publish(t.Context(), "EVENTHOOK_INGEST.dead", nil); err != nil {
		t.Fatal(err)
	}
	_, found = examine(t)
	wantFinding(t, found, check, findingWarning, "refuses: 1")
}

func TestDoctorFindsFaults(t *testing.T) {
	dsn := pgtest.New(t)
	configured(t, dsn)
	startInstance(t, dsn).stop()
	execute(t, dsn, `ALTER TABLE eventhook.delivery DETACH PARTITION eventhook.delivery_`+tomorrow(),
		`DROP TABLE eventhook.delivery_`+tomorrow(), `CREATE TABLE eventhook.event_20200101 PARTITION OF eventhook.event
		FOR VALUES FROM ('016f5e66-e800-7000-8000-000000000000') TO ('016f638c-a400-7000-8000-000000000000')`)
	t.Setenv("EVENTHOOK_ENCRYPTION_KEYS", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=")
	t.Setenv("EVENTHOOK_DATABASE_WORK_CONNS", "1000")
	t.Setenv("EVENTHOOK_PUBLIC_URL", "http://nowhere.invalid")
	t.Setenv("EVENTHOOK_TLS_CERT_FILE", "nowhere.pem")
	t.Setenv("EVENTHOOK_TLS_KEY_FILE", "nowhere.pem")
	code, found := examine(t, "--roles", "ingest")
	if code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	wantFinding(t, found, "partitions", findingWarning, "delivery lacks the partitions delivery_"+tomorrow())
	wantFinding(t, found, "partitions", findingWarning, "event_20200101")
	wantFinding(t, found, "encryption keys", findingFailed, "do not open the canary of this database")
	wantFinding(t, found, "database connections", findingFailed, "an instance uses up to")
	wantFinding(t, found, "public URL", findingFailed, "cannot be resolved")
	wantFinding(t, found, "public URL", findingWarning, "not protected")
	wantFinding(t, found, "TLS certificate", findingFailed, "nowhere.pem")
	wantFinding(t, found, "roles", findingWarning, "without api, route, dispatch")
}

func TestDoctorOfAnEmptyDatabaseAndOfARoleWithoutPrivileges(t *testing.T) {
	dsn := pgtest.New(t)
	configured(t, dsn)
	execute(t, dsn, `DROP SCHEMA eventhook CASCADE`)
	_, found := examine(t)
	wantFinding(t, found, "database schema", findingOK, "is empty")
	conn, err := pgx.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	execute(t, dsn, `CREATE SCHEMA eventhook`, `CREATE TABLE eventhook.schema_migrations (version bigint, dirty boolean)`)
	_, found = examine(t)
	if _, hasKeys := found["encryption keys"]; hasKeys || conn.Database == "" {
		t.Errorf("found %+v, want no check of keys without a schema", found)
	}
}

// withRole returns the URL of a database for a new role, which has the privileges of the grants.
func withRole(t *testing.T, dsn string, grants ...string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	role := "doctor_" + strings.ToLower(rand.Text()[:10])
	execute(t, dsn, `CREATE ROLE `+role+` LOGIN PASSWORD 's3cr3t'`)
	t.Cleanup(func() {
		conn, err := pgx.Connect(context.Background(), dsn)
		if err == nil {
			_, err = conn.Exec(context.Background(), `DROP OWNED BY `+role+`; DROP ROLE `+role)
			_ = conn.Close(context.Background())
		}
		if err != nil {
			t.Errorf("cannot drop the role: %v", err)
		}
	})
	for _, grant := range grants {
		execute(t, dsn, grant+` TO `+role)
	}
	u.User = url.UserPassword(role, "s3cr3t")
	return u.String()
}

func TestDoctorOfARoleWithoutPrivileges(t *testing.T) {
	dsn := pgtest.New(t)
	configured(t, withRole(t, dsn))
	code, found := examine(t)
	wantFinding(t, found, "database", findingFailed, "permission denied for schema eventhook")
	if code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	t.Setenv("DATABASE_URL", withRole(t, dsn, `GRANT USAGE ON SCHEMA eventhook`, `GRANT SELECT ON ALL TABLES IN SCHEMA eventhook`))
	_, found = examine(t)
	wantFinding(t, found, "database privileges", findingFailed, "the role lacks")
}

func TestDoctorOfADatabaseThatDoesNotExist(t *testing.T) {
	u, err := url.Parse(pgtest.New(t))
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/nowhere"
	configured(t, u.String())
	code, found := examine(t)
	wantFinding(t, found, "database", findingFailed, "does not exist")
	if code != 1 || !strings.Contains(found["database"][0].Change, "database") {
		t.Errorf("exit code %d, want 1; found %+v", code, found)
	}
}

func TestDoctorComparesClocks(t *testing.T) {
	for ahead, want := range map[time.Duration]string{0: findingOK, -900 * time.Millisecond: findingOK, 5 * time.Second: findingWarning,
		-5 * time.Second: findingWarning, time.Hour: findingFailed, -time.Hour: findingFailed} {
		d := &doctor{config: configs.Config{LeaseSeconds: 60}}
		d.checkClock(pg.Diagnosis{ClockAhead: ahead, RoundTrip: time.Millisecond})
		if got := d.findings[0].Status; got != want {
			t.Errorf("a clock that is %s ahead is %s, want %s", ahead, got, want)
		}
	}
}

func TestDoctorReportsCertificatesThatExpire(t *testing.T) {
	for left, want := range map[time.Duration]finding{-time.Hour: {Status: findingFailed, Detail: "expired"},
		72*time.Hour + time.Minute: {Status: findingWarning, Detail: "in 3 days"}, 1000 * time.Hour: {Status: findingOK, Detail: "valid until"}} {
		files := certfiletest.New(t, "gateway", time.Now().Add(left))
		d := &doctor{now: time.Now}
		d.config.TLS.CertFile, d.config.TLS.KeyFile = files.Cert, files.Key
		d.checkTLS(t.Context())
		if got := d.findings[0]; got.Status != want.Status || !strings.Contains(got.Detail, want.Detail) {
			t.Errorf("a certificate for %s more is %+v, want %+v", left, got, want)
		}
	}
}

func TestDoctorWhileTheDatabaseIsDown(t *testing.T) {
	configured(t, "postgres://u:s3cr3t@127.0.0.1:1/x?connect_timeout=2")
	code, found := examine(t)
	wantFinding(t, found, "database", findingFailed, "nothing listens at 127.0.0.1:1")
	wantFinding(t, found, "configuration", findingOK, "")
	if code != 1 || len(found["encryption keys"]) > 0 {
		t.Errorf("exit code %d, want 1; found %+v", code, found)
	}
}

func TestDoctorListsEveryFaultOfTheConfiguration(t *testing.T) {
	clitest.ClearEnvironment(t)
	t.Setenv("EVENTHOOK_LISTN", ":1")
	code, found := examine(t, "--listen", "here")
	wantFinding(t, found, "configuration", findingFailed, "EVENTHOOK_LISTEN")
	wantFinding(t, found, "configuration", findingFailed, "listen: is not an address")
	if code != 2 || len(found) != 1 {
		t.Errorf("exit code %d, want 2; found %+v", code, found)
	}
}

func TestDoctorStartsNoPrivatePostgreSQL(t *testing.T) {
	clitest.ClearEnvironment(t)
	folder := t.TempDir() + "/none"
	code, found := examine(t, "--data-dir", folder)
	wantFinding(t, found, "database", findingSkipped, "does not run")
	wantFinding(t, found, "disk", findingSkipped, "does not exist yet")
	if code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
}

// tomorrow returns the suffix of tomorrow's partitions.
func tomorrow() string { return time.Now().UTC().Add(24 * time.Hour).Format("20060102") }
