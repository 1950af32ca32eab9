package pg

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/eventhook/eventhook"
)

// Reason tells an operator why a database cannot be used.
type Reason struct {
	State  string // a clause without a period, such as "the database is read-only"
	Change string // a sentence that says what to change; "" if PostgreSQL ends the state by itself
}

// String returns the state and the change as sentences.
func (r Reason) String() string {
	if r.State == "" {
		return ""
	}
	text := strings.ToUpper(r.State[:1]) + r.State[1:] + "."
	if r.Change != "" {
		text += " " + r.Change
	}
	return text
}

// databaseFaults are the states in which a database refuses the gateway's statements until an
// operator or PostgreSQL ends them, by SQLSTATE.
var databaseFaults = map[string]Reason{
	codeReadOnly: {"the database is read-only: it is a standby, or default_transaction_read_only is on",
		"Promote it, or set DATABASE_URL to the primary; with several hosts, add target_session_attrs=read-write."},
	codeDiskFull: {"the disk of the database is full", "Free or add space."},
	codeTooManyConnections: {"the database accepts no more connections",
		"Raise its max_connections, or lower database.accept_conns, database.work_conns and database.list_conns."},
	codeWrongRole:     {"the database refuses the role of DATABASE_URL", "Create the role, correct DATABASE_URL, or allow the role in pg_hba.conf of the server."},
	codeWrongPassword: {"the database refuses the password of DATABASE_URL", "Correct the password; the server tells a missing role and a wrong password apart only in its log."},
	codeNoDatabase:    {"the database of DATABASE_URL does not exist on its server", "Create the database, or correct DATABASE_URL."},
	codeStarting:      {"the database is starting or stopping", ""},
}

// databaseFault returns the reason for an error of a statement or of a connect, or nil if it is
// not one of databaseFaults. The reason is for operators.
func databaseFault(err error) *eventhook.Error {
	pgErr, ok := asPgError(err)
	if !ok || databaseFaults[pgErr.Code].State == "" {
		return nil
	}
	return newFault(databaseFaults[pgErr.Code], err)
}

func newFault(reason Reason, cause error) *eventhook.Error {
	return &eventhook.Error{Kind: eventhook.KindUnavailable, Message: reason.String(), RetryAfter: notReadyRetryAfter, Cause: cause}
}

// Explain returns an error whose message tells an operator why a database refuses changes or
// connections, if that is the cause of err and is known. Otherwise it returns err.
func Explain(err error) error {
	if reason, ok := ReasonFor(err); ok {
		return newFault(reason, lastAttempt(err))
	}
	return err
}

// ReasonFor returns the reason for an error of a connect or a statement. ok is false if it is not
// known.
func ReasonFor(err error) (reason Reason, ok bool) {
	if pgErr, isAnswer := asPgError(err); isAnswer {
		if pgErr.Code == codeNoPrivilege {
			return Reason{"the role of DATABASE_URL lacks a privilege: " + pgErr.Message,
				"Let the role own the schema eventhook and its tables; for the first start, GRANT CREATE ON DATABASE to the role."}, true
		}
		reason, ok = databaseFaults[pgErr.Code]
		return reason, ok
	}
	if _, isConnect := errors.AsType[*pgconn.ConnectError](err); isConnect {
		reason = connectReason(err)
	}
	return reason, reason.State != ""
}

// connectReason returns why no connection was made, as far as it is known.
func connectReason(err error) Reason {
	address := "the address of DATABASE_URL"
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Addr != nil {
		address = op.Addr.String()
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		return Reason{"the host " + dns.Name + " of DATABASE_URL cannot be resolved", "Correct the host, or its DNS record."}
	}
	if untrusted, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return Reason{"the certificate of the database is not accepted: " + untrusted.Err.Error(),
			"Name the certificate of its authority with sslrootcert in DATABASE_URL, and connect to a host that the certificate names."}
	}
	switch timeout := net.Error(nil); {
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ENOENT): // a socket of Unix that does not exist
		return Reason{"nothing listens at " + address, "Start PostgreSQL, or correct host and port of DATABASE_URL."}
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return Reason{address + " does not answer in time", "Check host and port of DATABASE_URL, the network and the firewall."}
	case strings.HasSuffix(err.Error(), "server refused TLS connection"):
		return Reason{"the database has no TLS, which sslmode of DATABASE_URL demands", "Set ssl = on in postgresql.conf, or change sslmode."}
	}
	return Reason{}
}

// lastAttempt returns the error of the last attempt to connect, on one line. A connect has an error
// for each address, and with sslmode=prefer one more without TLS.
func lastAttempt(err error) error {
	failed, ok := errors.AsType[*pgconn.ConnectError](err)
	if !ok {
		return err
	}
	last := failed.Unwrap()
	for {
		joined, ok := last.(interface{ Unwrap() []error })
		if !ok {
			return last
		}
		attempts := joined.Unwrap()
		last = attempts[len(attempts)-1]
	}
}
