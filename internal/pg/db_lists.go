package pg

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// listSettings bound the time of each list and keep its planner at the indexes.
var listSettings = slices.Concat(indexScansOnly, []string{"enable_bitmapscan = off", "statement_timeout = '5s'"})

// localListSettingsSQL makes listSettings for the rest of a transaction.
var localListSettingsSQL = localSettings(listSettings)

// localSettings returns a statement that makes settings of the form "name = value" until the
// transaction ends.
func localSettings(settings []string) string {
	var calls []string
	for _, setting := range settings {
		name, value, _ := strings.Cut(setting, " = ")
		calls = append(calls, fmt.Sprintf("set_config('%s', '%s', true)", name, strings.Trim(value, "'")))
	}
	return "SELECT " + strings.Join(calls, ", ")
}

// listPool is a pool for lists. Behind a pooler in transaction mode, a session belongs to a
// client until its transaction ends: settings and prepared statements of the session are those
// of other clients, too. Each statement of a shared listPool therefore is in one transaction
// with its settings, without an additional round trip, and has no name. PgBouncer before 1.21
// does not support named statements in transaction mode at all.
type listPool struct {
	*pgxpool.Pool
	isShared bool
}

// newListPool returns a pool; isShared says that a pooler in transaction mode may serve it.
func newListPool(ctx context.Context, url string, conns int, isShared bool) (*listPool, error) {
	if !isShared {
		p, err := pool(ctx, url, conns, nil, listSettings)
		return &listPool{Pool: p}, err
	}
	config, err := poolConfig(url, conns)
	if err != nil {
		return nil, err
	}
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	p, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	return &listPool{Pool: p, isShared: true}, nil
}

// SendBatch runs the statements of a batch in one transaction.
func (p *listPool) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	if !p.isShared {
		return p.Pool.SendBatch(ctx, b)
	}
	settings := &pgx.Batch{}
	settings.Queue(localListSettingsSQL)
	b.QueuedQueries = append(settings.QueuedQueries, b.QueuedQueries...)
	results := p.Pool.SendBatch(ctx, b)
	_, _ = results.Exec() // the result of the next statement has the error, too
	return results
}

// Query runs one statement. Its rows must be closed or read to their end.
func (p *listPool) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if !p.isShared {
		return p.Pool.Query(ctx, sql, args...)
	}
	if len(args) > 0 {
		if _, isMode := args[0].(pgx.QueryExecMode); isMode { // every statement has the mode of the pool
			args = args[1:]
		}
	}
	b := &pgx.Batch{}
	b.Queue(sql, args...)
	results := p.SendBatch(ctx, b)
	rows, err := results.Query()
	if err != nil {
		_ = results.Close()
		return nil, err
	}
	return &batchRows{Rows: rows, results: results}, nil
}

// QueryRow runs one statement that returns one row.
func (p *listPool) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	rows, err := p.Query(ctx, sql, args...)
	return oneRow{rows, err}
}

// BeginTx begins a transaction with the settings of the pool.
func (p *listPool) BeginTx(ctx context.Context, o pgx.TxOptions) (pgx.Tx, error) {
	tx, err := p.Pool.BeginTx(ctx, o)
	if err != nil || !p.isShared {
		return tx, err
	}
	if _, err := tx.Exec(ctx, localListSettingsSQL); err != nil {
		_ = tx.Rollback(ctx)
		return nil, err
	}
	return tx, nil
}

// batchRows are the rows of the last statement of a batch. Their end ends the batch, and
// releases its connection.
type batchRows struct {
	pgx.Rows
	results pgx.BatchResults
	err     error
}

func (r *batchRows) Next() bool {
	if r.Rows.Next() {
		return true
	}
	r.Close()
	return false
}

func (r *batchRows) Close() {
	r.Rows.Close()
	r.err = r.results.Close()
}

func (r *batchRows) Err() error {
	if err := r.Rows.Err(); err != nil {
		return err
	}
	return r.err
}

// oneRow is the first row of rows.
type oneRow struct {
	rows pgx.Rows
	err  error
}

func (r oneRow) Scan(into ...any) error {
	if r.err != nil {
		return r.err
	}
	defer r.rows.Close()
	if !r.rows.Next() {
		if err := r.rows.Err(); err != nil {
			return err
		}
		return pgx.ErrNoRows
	}
	if err := r.rows.Scan(into...); err != nil {
		return err
	}
	r.rows.Close()
	return r.rows.Err()
}
