package pg

import (
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// poolerChecks is how often IsPooler compares sessions. A pooler need not assign the
// session that was returned last.
const poolerChecks = 4

// IsPooler reports whether a URL is that of a connection pooler in transaction or statement
// mode, which shares one session of PostgreSQL among many clients. It opens two connections and
// compares the processes of PostgreSQL that serve them. Without such a pooler, the connections
// have different processes, and no process changes. IsPooler returns false if it cannot connect.
func IsPooler(ctx context.Context, url string) bool {
	const timeout = 10 * time.Second
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	idle, err := probeConn(ctx, url)
	if err != nil {
		return false
	}
	defer closeProbe(idle)
	busy, err := probeConn(ctx, url)
	if err != nil {
		return false
	}
	defer closeProbe(busy)
	for range poolerChecks {
		isShared, err := hasSharedSessions(ctx, idle, busy)
		switch {
		case isShared:
			return true
		case err != nil:
			return false
		}
	}
	return false
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
