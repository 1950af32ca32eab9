package natslog

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/ingest"
)

// Options are the dependencies of a Log.
type Options struct {
	Config  ingest.LogConfig
	Ingest  ingest.Config // bounds the batches that are stored
	Name    string        // by which the instance introduces itself to the servers
	Log     *slog.Logger
	Now     func() time.Time
	Metrics Metrics // may be nil
	// AckWait is how long the servers wait for the acknowledgement of a message before they deliver it
	// to another instance; 0: 30 s.
	AckWait time.Duration
}

// Metrics observes a Log.
type Metrics interface {
	// LogStored counts events that were taken from the log and stored, or were stored before.
	LogStored(events, stored int)
	// LogDead counts messages that were moved to the dead messages.
	LogDead(n int)
}

// Log is a connection to the log. It implements ingest.Log and is safe for concurrent use. Open
// connects; Run takes messages until its context ends.
type Log struct {
	Options
	conn *nats.Conn
	js   jetstream.JetStream

	isReady  atomic.Bool  // an append may succeed as soon as there is a connection
	fault    atomic.Value // of type faultText: why the log is not ready
	reported atomic.Value // of type faultText: the last error of the connection, which each attempt to connect repeats
	state    atomic.Pointer[ingest.LogState]
	suspects suspects
}

var _ ingest.Log = (*Log)(nil)

// faultText is why the log is not ready; "" for no reason.
type faultText string

const (
	notReached  faultText = "the log of webhooks has not been reached yet"
	unreachable faultText = "the log of webhooks cannot be reached"
	noLogin     faultText = "the servers of the log of webhooks refuse the credentials of this instance"
)

// subject is the subject of a tenant's messages. The stream has all subjects below its name.
func (l *Log) subject(e *eventhook.Event) string {
	return l.Config.Name + ".events." + e.TenantID.String()
}

func (l *Log) deadSubject() string { return l.Config.Name + ".dead" }

// Names of the parts of the log on the servers.
func (l *Log) deadStream() string { return l.Config.Name + "_DEAD" }
func (l *Log) bucket() string     { return l.Config.Name + "_SOURCES" }

// consumer is the name of the durable consumer that all instances share.
const consumer = "store"

// Open connects to the servers. It does not wait for them: while they cannot be reached, Ready says so,
// and the connection is tried again and again. The error is for a configuration that cannot work.
func Open(o Options) (*Log, error) {
	l := &Log{Options: o}
	l.AckWait = cmp.Or(l.AckWait, defaultAckWait)
	l.fault.Store(notReached)
	options, err := l.connectOptions()
	if err != nil {
		return nil, err
	}
	if l.conn, err = nats.Connect(o.Config.URL, options...); err != nil {
		return nil, fmt.Errorf("ingest.log.url: %w", hideURL(err))
	}
	if l.js, err = jetstream.New(l.conn, jetstream.WithPublishAsyncMaxPending(maxPending),
		jetstream.WithPublishAsyncTimeout(o.Config.AppendTimeout)); err != nil {
		l.conn.Close()
		return nil, fmt.Errorf("ingest.log: %w", err)
	}
	return l, nil
}

const defaultAckWait = 30 * time.Second

// maxPending is the maximum number of appends that wait for an acknowledgement; ingest.LogFront bounds
// them before.
const maxPending = 64 << 10

// reconnectWait is the time between two attempts to reach the servers.
const reconnectWait = 250 * time.Millisecond

// A server that does not answer maxPings pings counts as lost.
const (
	pingInterval = 2 * time.Second
	maxPings     = 2
)

func (l *Log) connectOptions() ([]nats.Option, error) {
	options := []nats.Option{
		nats.Name(l.Name), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.ReconnectWait(reconnectWait),
		nats.PingInterval(pingInterval), nats.MaxPingsOutstanding(maxPings),
		nats.ReconnectBufSize(-1),   // an append fails at once while there is no connection: its sender must know
		nats.IgnoreAuthErrorAbort(), // a login that is refused may be allowed later
		nats.ErrorHandler(func(c *nats.Conn, _ *nats.Subscription, err error) {
			if text := faultText(err.Error()); l.reported.Swap(text) != text || c.IsConnected() {
				l.Log.Warn("the log of webhooks reported an error", "error", err)
			}
		}),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) { l.notConnected(err) }),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			l.fault.Store(unreachable)
			if err != nil {
				l.Log.Warn("the connection to the log of webhooks broke; connecting again", "error", err)
			}
		}),
		nats.ReconnectHandler(func(c *nats.Conn) {
			l.reported.Store(faultText(""))
			l.Log.Info("connected to the log of webhooks again", "server", c.ConnectedServerName())
		}),
	}
	if l.Config.CredentialsFile != "" {
		options = append(options, nats.UserCredentials(l.Config.CredentialsFile))
	}
	if l.Config.CAFile != "" {
		pem, err := os.ReadFile(l.Config.CAFile)
		if err != nil {
			return nil, fmt.Errorf("ingest.log.ca_file: %w", err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(pem) {
			return nil, errors.New("ingest.log.ca_file: no certificate in PEM")
		}
		options = append(options, nats.Secure(&tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}))
	}
	return options, nil
}

// notConnected keeps why an attempt to connect has failed. Only the first of many attempts is logged. A login that
// one server refused stays the reason while other servers cannot be reached.
func (l *Log) notConnected(err error) {
	if errors.Is(err, nats.ErrNoServers) { // only of the first attempt; the next one has the cause
		return
	}
	text := unreachable
	for _, refusal := range []error{nats.ErrAuthorization, nats.ErrAuthExpired, nats.ErrAuthRevoked, nats.ErrAccountAuthExpired} {
		if errors.Is(err, refusal) {
			text = noLogin
		}
	}
	before, _ := l.fault.Load().(faultText)
	if before != text && before != noLogin && l.fault.CompareAndSwap(before, text) {
		l.Log.Warn(string(text)+"; connecting again", "error", hideURL(err))
	}
}

// hideURL removes URLs, which may contain a password, from an error of nats.go.
func hideURL(err error) error {
	if strings.Contains(err.Error(), "://") {
		return errors.New("is not valid, or the servers refuse the connection") //nolint:err113 // the cause may quote a password
	}
	return err
}

// Ready returns nil while the log takes webhooks, otherwise the reason, for users.
func (l *Log) Ready() error {
	if l.isReady.Load() && l.conn.IsConnected() {
		return nil
	}
	text, _ := l.fault.Load().(faultText)
	return &eventhook.Error{Kind: eventhook.KindUnavailable, Message: string(text)}
}

// State returns the state of the stream when it was last read; ok is false before that.
func (l *Log) State() (s ingest.LogState, ok bool) {
	p := l.state.Load()
	if p == nil {
		return s, false
	}
	return *p, true
}

// Close ends the connection.
func (l *Log) Close() { l.conn.Close() }
