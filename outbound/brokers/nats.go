package brokers

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/targets"
)

// natsConnection publishes to NATS. Headers have the names of the NATS binding of CloudEvents: ce-
// and the attribute.
type natsConnection struct {
	conn    *nats.Conn
	js      jetstream.JetStream
	flusher *natsFlusher
}

func (b *Brokers) openNATS(ctx context.Context, s *targets.NATS) (Connection, error) {
	conn, js, err := b.connectNATS(ctx, &s.NATSServer, maxNATSMessage, newCredit(minCredit))
	if err != nil {
		return nil, err
	}
	return &natsConnection{conn, js, &natsFlusher{conn: conn}}, nil
}

// connectNATS connects to a server, whose messages have at most maxMessage bytes.
func (b *Brokers) connectNATS(ctx context.Context, s *targets.NATSServer, maxMessage int, credit *credit) (*nats.Conn, jetstream.JetStream, error) {
	options := nats.GetDefaultOptions()
	options.Servers = s.Servers()
	options.Name, options.User, options.Password, options.Token = b.Name, s.Username, s.Password, s.Token
	options.AllowReconnect = false // the next message opens another connection, within the bounds of the pool
	dialer := &natsDialer{ctx: ctx, brokers: b, ca: s.CA, secure: s.UsesTLS(), maxMessage: maxMessage, credit: credit}
	options.CustomDialer = dialer
	options.NoEcho = true
	options.AsyncErrorCB = func(*nats.Conn, *nats.Subscription, error) {} // without it, nats.go prints errors
	if deadline, ok := ctx.Deadline(); ok {
		options.Timeout = deadline.Sub(b.Now())
	}
	if s.Credentials != "" {
		if err := useCredentials(&options, s.Credentials); err != nil {
			return nil, nil, err
		}
	}
	conn, err := options.Connect()
	if errors.Is(err, nats.ErrNoServers) && dialer.refused != nil {
		err = dialer.refused
	}
	if err != nil {
		return nil, nil, natsFailure(err)
	}
	js, err := jetstream.New(conn)
	if err != nil {
		conn.Close()
		return nil, nil, err
	}
	return conn, js, nil
}

// useCredentials reads the content of a .creds file.
func useCredentials(o *nats.Options, text string) error {
	jwt, err := nkeys.ParseDecoratedJWT([]byte(text))
	if err != nil {
		return Errorf(eventhook.ErrorAuth, "credentials are not the content of a .creds file")
	}
	pair, err := nkeys.ParseDecoratedUserNKey([]byte(text))
	if err != nil {
		return Errorf(eventhook.ErrorAuth, "credentials have no seed of a user")
	}
	o.UserJWT, o.SignatureCB = func() (string, error) { return jwt, nil }, pair.Sign
	return nil
}

// maxNATSSubject is the maximum size of a subject in bytes. A server closes the connection, which other messages use,
// at a protocol line of 4096 bytes (max_control_line), and the line has a reply subject and sizes, too.
const maxNATSSubject = 2048

// Publish implements Connection. The message id of JetStream is the id of the delivery, so that a
// stream stores a repetition within its duplicate window once.
func (c *natsConnection) Publish(ctx context.Context, b targets.Broker, m targets.CloudEvent) (string, error) {
	s := b.(*targets.NATS) //nolint:forcetypeassert // the connection was opened for it
	msg := &nats.Msg{Subject: s.SubjectOf(m.Key), Data: m.Data, Header: nats.Header{}}
	if len(msg.Subject) > maxNATSSubject {
		return "", Errorf(eventhook.ErrorRefused, "the subject has %d bytes with the key of the event; the gateway sends at most %d", len(msg.Subject), maxNATSSubject)
	}
	if m.ContentType != "" {
		msg.Header.Set("Content-Type", headerText(m.ContentType))
	}
	for _, a := range m.Attributes {
		msg.Header.Set("ce-"+a.Name, percentEncoded(a.Value))
	}
	if s.Delivery == "core" {
		return c.publishCore(ctx, msg)
	}
	ack, err := c.js.PublishMsg(ctx, msg, jetstream.WithMsgID(m.DeliveryID), jetstream.WithRetryAttempts(0))
	if err != nil {
		return "", natsFailure(err)
	}
	receipt := fmt.Sprintf("stream %s, sequence %d", ack.Stream, ack.Sequence)
	if ack.Duplicate {
		receipt += ", stored before"
	}
	return receipt, nil
}

// publishCore publishes without a stream. The server answers a ping after it has read the message.
func (c *natsConnection) publishCore(ctx context.Context, msg *nats.Msg) (string, error) {
	if err := c.conn.PublishMsg(msg); err != nil {
		return "", natsFailure(err)
	}
	if err := c.flusher.flush(ctx); err != nil {
		return "", natsFailure(err)
	}
	if err := c.conn.LastError(); errors.Is(err, nats.ErrPermissionViolation) {
		c.conn.Close() // otherwise later messages would see this error
		return "", natsFailure(err)
	}
	return "received by " + hostOf(c.conn.ConnectedUrl()), nil
}

// natsFailure describes the errors of a server.
func natsFailure(err error) error {
	var api *jetstream.APIError
	switch {
	case errors.Is(err, jetstream.ErrNoStreamResponse), errors.Is(err, nats.ErrNoResponders):
		return Errorf(eventhook.ErrorRefused, "no stream of JetStream stores the subject; create one, or set delivery to core")
	case errors.Is(err, nats.ErrTimeout):
		return context.DeadlineExceeded
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired), errors.Is(err, nats.ErrAuthRevoked):
		return Errorf(eventhook.ErrorAuth, "the server does not accept the credentials, or they have expired")
	case errors.Is(err, nats.ErrPermissionViolation):
		return Errorf(eventhook.ErrorAuth, "the credentials may not publish to the subject")
	case errors.Is(err, nats.ErrMaxPayload):
		return Errorf(eventhook.ErrorRefused, "the message is larger than the server accepts")
	case errors.As(err, &api):
		return Errorf(eventhook.ErrorRefused, "JetStream answered %d: %s", api.ErrorCode, eventhook.SanitizeText(api.Description))
	}
	return err
}

// IsClosed implements Connection.
func (c *natsConnection) IsClosed() bool { return !c.conn.IsConnected() }

// Close implements Connection.
func (c *natsConnection) Close() { c.conn.Close() }

func hostOf(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "the server"
	}
	return u.Host
}

// headerText returns a text as the value of a header that is not percent-encoded, such as Content-Type:
// each character outside printable ASCII becomes ?.
func headerText(s string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' || c >= 0x7f {
			return '?'
		}
		return c
	}, s)
}

// percentEncoded encodes a value of an attribute as CloudEvents does for headers: characters outside
// printable ASCII, the space, the quotation mark and the percent sign.
func percentEncoded(s string) string {
	if !strings.ContainsFunc(s, isEncoded) {
		return s
	}
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; isEncoded(rune(c)) || c >= 0x7f {
			b.WriteString("%" + strings.ToUpper(strconv.FormatInt(int64(c)|0x100, 16)[1:]))
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

func isEncoded(c rune) bool { return c <= ' ' || c >= 0x7f || c == '"' || c == '%' }
