package pg

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/eventhook/eventhook"
)

// SQLSTATE codes that the package handles.
const (
	codeQueryCanceled   = "57014"
	codeRaised          = "P0001"
	codeUniqueViolation = "23505"
	codeSerialization   = "40001"
	codeDeadlock        = "40P01"
	codeLockTimeout     = "55P03"
	codeForeignKey      = "23503"

	codeReadOnly           = "25006"
	codeNoPrivilege        = "42501"
	codeWrongRole          = "28000"
	codeWrongPassword      = "28P01"
	codeNoDatabase         = "3D000"
	codeDiskFull           = "53100"
	codeTooManyConnections = "53300"
	codeStarting           = "57P03"

	codeInvalidSchema     = "3F000"
	codeUndefinedTable    = "42P01"
	codeUndefinedColumn   = "42703"
	codeUndefinedFunction = "42883"
)

// translate translates an error of a statement. An eventhook.Error stays as it is.
// pgx.ErrNoRows becomes ErrNotFound. A database that is down or does not answer in time, and a statement timeout,
// become KindUnavailable. A violated unique constraint becomes KindConflict. Any other error is wrapped with the
// operation.
func translate(act string, err error) error {
	if err == nil {
		return nil
	}
	if eventhook.KindOf(err) != "" {
		return err
	}
	if errors.Is(err, pgx.ErrNoRows) {
		return eventhook.ErrNotFound
	}
	switch cause := fmt.Errorf("%s: %w", act, err); {
	case isDown(err):
		return unavailable("The database is not available; try again.", cause)
	case errors.Is(err, context.DeadlineExceeded): // of the caller, or of a pool whose database hangs
		return unavailable("The database does not answer; try again.", cause)
	case hasCode(err, codeQueryCanceled):
		return unavailable("The list takes too long; narrow it, by time for instance.", cause)
	}
	if pgErr, ok := asPgError(err); ok && pgErr.Code == codeUniqueViolation {
		return &eventhook.Error{Kind: eventhook.KindConflict, Message: "a resource with this name or key exists already", Cause: err}
	}
	return fmt.Errorf("%s: %w", act, err)
}

func unavailable(message string, cause error) error {
	return &eventhook.Error{Kind: eventhook.KindUnavailable, Message: message, RetryAfter: time.Second, Cause: cause}
}

// isDown reports whether the database could not be reached, or is stopping or
// starting: SQLSTATE class 08, and codes that begin with 57P. It also reports true while the
// database has no free connection, has a full disk, or is read-only.
func isDown(err error) bool {
	if pgErr, ok := asPgError(err); ok {
		return strings.HasPrefix(pgErr.Code, "08") || strings.HasPrefix(pgErr.Code, "57P") || pgErr.Code == codeTooManyConnections || pgErr.Code == codeDiskFull || pgErr.Code == codeReadOnly
	}
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return true
	}
	_, ok := errors.AsType[*net.OpError](err)
	return ok || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) || errors.Is(err, pgconn.ErrConnClosed)
}

// IsOutage reports whether an error of a DB may mean that the database cannot be used: it cannot be
// reached, stops or starts, or allows no writes. A full disk is no outage: the database may refuse
// some writes only.
func IsOutage(err error) bool {
	return isDown(err) && !IsDiskFull(err) || errors.Is(err, errReadOnly)
}

// IsDiskFull reports whether a statement failed because the disk of the database is full. Until an
// operator has added space, nearly every statement that writes fails so.
func IsDiskFull(err error) bool { return hasCode(err, codeDiskFull) }

// Usable connects to the database, apart from the pools, and returns nil if it allows writes. It
// takes two seconds at most.
func (db *DB) Usable(ctx context.Context) error {
	const timeout = 2 * time.Second
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	conn, err := pgx.ConnectConfig(ctx, db.work.Config().ConnConfig)
	if err != nil {
		return err
	}
	defer closeProbe(conn)
	var isReadOnly bool
	if err := conn.QueryRow(ctx, `SELECT current_setting('transaction_read_only')::boolean`).Scan(&isReadOnly); err != nil {
		return err
	}
	if isReadOnly {
		return errReadOnly
	}
	return nil
}

var errReadOnly = errors.New("the database is read-only")

func hasCode(err error, codes ...string) bool {
	pgErr, ok := asPgError(err)
	if !ok {
		return false
	}
	for _, code := range codes {
		if pgErr.Code == code {
			return true
		}
	}
	return false
}

func asPgError(err error) (*pgconn.PgError, bool) { return errors.AsType[*pgconn.PgError](err) }

// isDataError reports whether the database refused the values: SQLSTATE classes 22 and 23,
// 54 (a limit was exceeded), and P0001 (RAISE in a trigger of the operator). Retrying the
// same batch is useless then.
func isDataError(err error) bool {
	pgErr, ok := asPgError(err)
	if !ok || len(pgErr.Code) != 5 {
		return false
	}
	class := pgErr.Code[:2]
	return class == "22" || class == "23" || class == "54" || pgErr.Code == codeRaised
}

// bisect handles a batch that the database refused because of the values of an item.
// It splits the batch until the refused item is alone, and passes the item to
// refused. It tries a single item a second time before that, because the database
// may refuse a row of the default partition while the partition of its day is being
// attached. bisect ends at an error other than a refusal, and returns it.
func bisect[T any](batch []T, act func([]T) error, refused func(T, error)) error {
	if len(batch) <= 1 {
		err := act(batch)
		if isDataError(err) {
			refused(batch[0], err)
			return nil
		}
		return err
	}
	half := len(batch) / 2
	for _, part := range [][]T{batch[:half], batch[half:]} {
		err := act(part)
		if isDataError(err) {
			err = bisect(part, act, refused)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
