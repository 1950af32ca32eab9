package pg

import (
	"context"
	"io"
	"net"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook/internal/pgtest"
)

// A statement on a connection that the pool has not noticed to be closed fails in an outage, as
// those do that break the connection.
func TestAClosedConnectionMayBeAnOutage(t *testing.T) {
	conn, err := pgx.Connect(t.Context(), pgtest.New(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, closed := conn.Exec(t.Context(), `SELECT 1`)
	for _, c := range []struct {
		err  error
		want bool
	}{
		{closed, true},
		{io.ErrUnexpectedEOF, true},
		{&net.OpError{Op: "read", Err: io.EOF}, true},
		{context.Canceled, false},
		{pgx.ErrNoRows, false},
	} {
		if got := IsOutage(translate("act", c.err)); got != c.want {
			t.Errorf("IsOutage of %v is %t, want %t", c.err, got, c.want)
		}
	}
}
