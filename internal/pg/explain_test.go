package pg

import (
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook/internal/pgtest"
)

func TestTheReasonOfAFailedConnect(t *testing.T) {
	server, err := url.Parse(pgtest.New(t))
	if err != nil {
		t.Fatal(err)
	}
	missing, refused := *server, *server
	missing.Path, refused.User = "/nowhere", url.UserPassword("nobody_with_this_name", "s3cr3t")
	for dsn, want := range map[string]string{
		"postgres://u:s3cr3t@127.0.0.1:1/x":             "nothing listens at 127.0.0.1:1",
		"postgres://u:s3cr3t@127.0.0.1:1,127.0.0.1:2/x": "nothing listens at 127.0.0.1:",
		"postgres://u:s3cr3t@nowhere.invalid/x":         "the host nowhere.invalid of DATABASE_URL cannot be resolved",
		"postgres://u:s3cr3t@/x?host=/nowhere":          "nothing listens at /nowhere",
		missing.String():                                "does not exist on its server",
		refused.String():                                "the database refuses the role of DATABASE_URL",
	} {
		_, err := pgx.Connect(t.Context(), dsn)
		if err == nil {
			t.Errorf("%s: connected, want %q", dsn, want)
			continue
		}
		reason, ok := ReasonFor(err)
		if !ok || !strings.Contains(reason.State, want) || reason.Change == "" {
			t.Errorf("%s: got %+v for %v, want %q", dsn, reason, err, want)
		}
		if text := Explain(err).Error(); strings.Contains(text, "failed to connect to") || strings.Contains(text, "s3cr3t") {
			t.Errorf("%s: explained as %q, want the last attempt only", dsn, text)
		}
	}
}
