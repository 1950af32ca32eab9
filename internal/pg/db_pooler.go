package pg

import (
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/eventhook/eventhook"
)

var errPooler = &eventhook.Error{Kind: eventhook.KindInvalid, Message: "DATABASE_URL is the address of a connection pooler in transaction mode " +
	"(such as PgBouncer with pool_mode = transaction), which shares one session of PostgreSQL among many clients. The gateway needs its own sessions, " +
	"for LISTEN, prepared statements and settings: connect to PostgreSQL directly, or set the pool_mode of the pooler to session"}

// poolerChecks is how often RefusePooler compares sessions. A pooler need not assign the
// session that was returned last.
const poolerChecks = 4

// RefusePooler returns an error of KindInvalid if a URL is that of a connection pooler in
// transaction or statement mode. It opens two connections and compares the processes of
// PostgreSQL that serve them. Without such a pooler, the connections have different
// processes, and no process changes. RefusePooler returns nil if it cannot connect.
func RefusePooler(ctx context.Context, url string) error {
	const timeout = 10 * time.Second
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	idle, err := probeConn(ctx, url)
	if err != nil {
		return nil
	}
	defer closeProbe(idle)
	busy, err := probeConn(ctx, url)
	if err != nil {
		return nil
	}
	defer closeProbe(busy)
	for range poolerChecks {
		isShared, err := hasSharedSessions(ctx, idle, busy)
		switch {
		case isShared:
			return errPooler
		case err != nil:
			return nil
		}
	}
	return nil
}

// hasSharedSessions reports whether the process that serves idle also serves a
// transaction of busy, or whether the process that serves idle changes.
func hasSharedSessions(ctx context.Context, idle, busy *pgx.Conn) (bool, error) {
	before, err := backendPID(ctx, idle)
	if err != nil {
		return false, err
	}
	if _, err := busy.Exec(ctx, "BEGIN"); err != nil {
		return strings.Contains(err.Error(), "statement pooling mode"), err // the text of PgBouncer
	}
	inside, err := backendPID(ctx, busy)
	if err != nil || inside == before {
		return err == nil, err
	}
	after, err := backendPID(ctx, idle)
	if err != nil {
		return false, err
	}
	_, err = busy.Exec(ctx, "ROLLBACK")
	return after != before, err
}

// probeConn connects without prepared statements, which a pooler may refuse.
func probeConn(ctx context.Context, url string) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	return pgx.ConnectConfig(ctx, config)
}

func closeProbe(conn *pgx.Conn) {
	const timeout = time.Second
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	_ = conn.Close(ctx)
}

func backendPID(ctx context.Context, conn *pgx.Conn) (pid int32, err error) {
	err = conn.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&pid)
	return pid, err
}
