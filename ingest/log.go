package ingest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/eventhook/eventhook"
)

// Acceptor stores the event of a webhook. *Batcher and *LogFront implement it.
type Acceptor interface {
	// Accept returns nil if the event is on disk. An error of KindUnavailable asks the sender to send the
	// webhook again later, because load is shed or the log failed; any other error means that storing failed.
	Accept(e *eventhook.Event) error
}

// LogConfig configures a log of webhooks in front of the database. Without a URL there is no log.
type LogConfig struct {
	URL      string `config:"url"`       // of NATS servers with JetStream, separated by commas; it may contain a user and a password
	Replicas int    `config:"replicas"`  // servers that store each webhook
	Name     string `config:"name"`      // of the stream; the names of the bucket and the consumer begin with it, too
	MaxBytes int64  `config:"max_bytes"` // of the stream; more are shed
	CAFile   string `config:"ca_file"`   // authorities that replace those of the system
	// CredentialsFile is a .creds file with a user JWT and its seed, "" for none.
	CredentialsFile string        `config:"credentials_file"`
	AppendTimeout   time.Duration `config:"append_timeout"` // after which a webhook is refused
	// WhenUnavailable says what happens with webhooks while the log takes none: refuse or database.
	WhenUnavailable string `config:"when_unavailable"`
}

// The values of LogConfig.WhenUnavailable.
const (
	LogRefuse   = "refuse"   // 503
	LogDatabase = "database" // they are stored in the database directly
)

// DefaultLogConfig returns a LogConfig without a URL.
func DefaultLogConfig() LogConfig {
	return LogConfig{Replicas: 3, Name: "EVENTHOOK_INGEST", MaxBytes: 10 << 30, AppendTimeout: 5 * time.Second, WhenUnavailable: LogRefuse}
}

// IsOn reports whether there is a log.
func (c LogConfig) IsOn() bool { return c.URL != "" }

// Validate reports every fault by its key.
func (c LogConfig) Validate() eventhook.Faults {
	var f eventhook.Faults
	for one := range strings.SplitSeq(c.URL, ",") {
		u, err := url.Parse(strings.TrimSpace(one))
		if c.URL != "" && (err != nil || !slices.Contains([]string{"nats", "tls"}, u.Scheme) || u.Hostname() == "" ||
			u.Port() != "" && !eventhook.IsPort(u.Port()) || strings.Trim(u.Path, "/")+u.RawQuery+u.Fragment != "") {
			f.Add("url", "is not a list of URLs such as nats://nats-1:4222,nats://nats-2:4222 or tls://nats.example:4222") // it may have a password
			break
		}
	}
	const maxReplicas, minBytes, maxName = 5, 64 << 20, 64
	if c.Replicas < 1 || c.Replicas > maxReplicas || c.Replicas%2 == 0 {
		f.Add("replicas", "%d, want 1, 3 or 5", c.Replicas)
	}
	isName := func(r rune) bool {
		return r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '_' || r == '-'
	}
	if c.Name == "" || len(c.Name) > maxName || strings.ContainsFunc(c.Name, func(r rune) bool { return !isName(r) }) {
		f.Add("name", "must have 1 to %d letters, digits, _ or -", maxName)
	}
	for _, file := range []struct{ key, name string }{{"ca_file", c.CAFile}, {"credentials_file", c.CredentialsFile}} {
		if strings.ContainsRune(file.name, 0) {
			f.Add(file.key, "is not the name of a file")
		}
	}
	if c.MaxBytes < minBytes {
		f.Add("max_bytes", "%d, want at least %d", c.MaxBytes, minBytes)
	}
	if c.AppendTimeout < time.Second || c.AppendTimeout > time.Minute {
		f.Add("append_timeout", "%s, want 1s to 1m", c.AppendTimeout)
	}
	if c.WhenUnavailable != LogRefuse && c.WhenUnavailable != LogDatabase {
		f.Add("when_unavailable", "must be %s or %s", LogRefuse, LogDatabase)
	}
	return f
}

// Log is a durable queue in front of the database. Package natslog implements it. It is safe for
// concurrent use.
type Log interface {
	// Append returns nil if the log has stored the event on a quorum of its servers. If it returns
	// an error other than ErrLogFull, the log may have stored the event nevertheless.
	Append(ctx context.Context, e *eventhook.Event) error
	// Fits reports whether a message of the log can hold the event.
	Fits(e *eventhook.Event) bool
}

// ErrLogFull is the error of a Log that has reached its bound.
var ErrLogFull = errors.New("the log of webhooks has reached its bound")

// ErrLogUnavailable is the cause of an instance that is not ready because of its Log. The Log logs each
// change of its state.
var ErrLogUnavailable = errors.New("the log of webhooks is not available")

// LogFront accepts events into a Log, from which they are stored in the database later; see Sink.
// Events that do not fit into the log are stored directly. It is safe for concurrent use.
type LogFront struct {
	log     Log
	direct  Acceptor
	stored  StoredEvents
	config  LogConfig
	waiting chan struct{} // holds a token for each event that is being appended
	observe func(outcome string, took time.Duration)
	now     func() time.Time
}

// StoredEvents returns which of the events are in the database.
type StoredEvents func(ctx context.Context, ids []eventhook.EventID) (map[eventhook.EventID]bool, error)

// NewLogFront returns an Acceptor that appends to log, and stores other events in direct. At most
// waiting events are appended at once. observe is called for each append with one of LogOutcomes.
func NewLogFront(config LogConfig, log Log, direct Acceptor, stored StoredEvents, waiting int, observe func(outcome string, took time.Duration),
	now func() time.Time) *LogFront {
	return &LogFront{log: log, direct: direct, stored: stored, config: config, waiting: make(chan struct{}, waiting), observe: observe, now: now}
}

// The outcomes of appends.
const (
	LogAppended    = "appended"
	LogFull        = "full"
	LogUnavailable = "unavailable"
	LogTooLarge    = "too_large" // stored directly, or refused
)

// LogOutcomes lists the outcomes of appends.
var LogOutcomes = []string{LogAppended, LogFull, LogUnavailable, LogTooLarge}

var (
	errLogFull = &eventhook.Error{Kind: eventhook.KindUnavailable, Message: "too many webhooks wait in the log; send it again later", RetryAfter: 10 * time.Second}
	errLogDown = &eventhook.Error{Kind: eventhook.KindUnavailable, Message: "the webhook could not be stored; send it again later", RetryAfter: 5 * time.Second}
)

// Accept implements Acceptor. It returns nil after a quorum of the log's servers has stored the event.
func (f *LogFront) Accept(e *eventhook.Event) error {
	if !f.log.Fits(e) {
		f.observe(LogTooLarge, 0)
		return f.acceptDirectly(e)
	}
	select {
	case f.waiting <- struct{}{}:
		defer func() { <-f.waiting }()
	default:
		return errShed
	}
	began := f.now()
	ctx, cancel := context.WithTimeout(context.Background(), f.config.AppendTimeout)
	defer cancel()
	err := f.log.Append(ctx, e)
	outcome := LogAppended
	switch {
	case err == nil:
	case errors.Is(err, ErrLogFull):
		outcome, err = LogFull, errLogFull
	case f.config.WhenUnavailable == LogDatabase:
		outcome, err = LogUnavailable, f.acceptToo(e)
	default:
		outcome, err = LogUnavailable, logDown(fmt.Errorf("the log of webhooks does not acknowledge: %w", err))
	}
	f.observe(outcome, f.now().Sub(began))
	return err
}

// acceptDirectly stores an event without the log. While the database fails, the sender gets a 503.
func (f *LogFront) acceptDirectly(e *eventhook.Event) error {
	err := f.direct.Accept(e)
	if failed, ok := errors.AsType[*notStoredError](err); ok {
		return logDown(failed.cause)
	}
	return err
}

// acceptToo stores an event directly that the log may have stored, too. If this is the first one, the
// instance that takes the message finds the event by its id. If the message was faster, the database
// refuses the id here.
func (f *LogFront) acceptToo(e *eventhook.Event) error {
	err := f.acceptDirectly(e)
	if !errors.Is(err, errEventRefused) {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), f.config.AppendTimeout)
	defer cancel()
	found, lookErr := f.stored(ctx, []eventhook.EventID{e.ID})
	switch {
	case lookErr != nil:
		return logDown(lookErr)
	case found[e.ID]:
		return nil
	}
	return err
}

func logDown(cause error) error {
	down := *errLogDown
	down.Cause = cause
	return &down
}

// Waiting returns the number of events that are being appended.
func (f *LogFront) Waiting() int { return len(f.waiting) }

// LogState is the state of a log when it was last read.
type LogState struct {
	Messages int64 // webhooks that are not in the database
	Bytes    int64
	MaxBytes int64
	OldestAt time.Time // zero without a message
	Dead     int64     // webhooks that the database refuses
	ReadAt   time.Time
}
