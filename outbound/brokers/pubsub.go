package brokers

import (
	"context"
	"net"
	"strings"
	"sync/atomic"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"golang.org/x/oauth2/google"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/oauth"
	"google.golang.org/grpc/status"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/targets"
)

// pubsubConnection publishes to Google Cloud Pub/Sub by the generated client of its API. Attributes
// have the names of Google's binding of CloudEvents: ce-NAME and Content-Type.
//
// Each request has one message and ends with its time. Google's client library is not used: it collects
// messages in the background, sends them although their time has ended, and takes no further message
// with an ordering key after an error.
type pubsubConnection struct {
	conn    *grpc.ClientConn
	client  pubsubpb.PublisherClient
	retired atomic.Bool
	trouble atomic.Pointer[error] // why the server cannot be reached now
}

func (b *Brokers) openPubSub(_ context.Context, s *targets.PubSub) (Connection, error) {
	const scope = "https://www.googleapis.com/auth/pubsub"
	// The tokens are signed here: no request goes to an address in the credentials.
	tokens, err := google.JWTAccessTokenSourceWithScope([]byte(s.Credentials), scope)
	if err != nil {
		return nil, Errorf(eventhook.ErrorAuth, "credentials are not the JSON key of a service account")
	}
	const maxAnswer = 64 << 10
	c := &pubsubConnection{}
	c.conn, err = grpc.NewClient("passthrough:///"+s.Server(), grpc.WithContextDialer(c.dialer(b.Dialer)),
		grpc.WithTransportCredentials(pubsubTLS{credentials.NewTLS(b.TLSConfig("")), c}),
		grpc.WithPerRPCCredentials(oauth.TokenSource{TokenSource: tokens}), grpc.WithUserAgent(b.Name),
		grpc.WithDisableServiceConfig(), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)))
	if err != nil {
		return nil, err
	}
	c.client = pubsubpb.NewPublisherClient(c.conn)
	return c, nil
}

// dialer returns a function that connects to the server and stores why it could not.
func (c *pubsubConnection) dialer(d Dialer) func(ctx context.Context, address string) (net.Conn, error) {
	return func(ctx context.Context, address string) (net.Conn, error) {
		conn, err := d.DialContext(ctx, "tcp", address)
		if err != nil {
			c.trouble.Store(&err)
		}
		return conn, err
	}
}

// pubsubTLS stores why a handshake failed: the errors of gRPC do not wrap the cause.
type pubsubTLS struct {
	credentials.TransportCredentials
	c *pubsubConnection
}

// ClientHandshake implements credentials.TransportCredentials.
func (t pubsubTLS) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (
	secured net.Conn, info credentials.AuthInfo, err error) {
	secured, info, err = t.TransportCredentials.ClientHandshake(ctx, authority, raw)
	if t.c.trouble.Store(nil); err != nil {
		t.c.trouble.Store(&err)
	}
	return secured, info, err
}

// Clone implements credentials.TransportCredentials.
func (t pubsubTLS) Clone() credentials.TransportCredentials {
	return pubsubTLS{t.TransportCredentials.Clone(), t.c}
}

// Publish implements Connection.
func (c *pubsubConnection) Publish(ctx context.Context, b targets.Broker, m targets.CloudEvent) (string, error) {
	const maxMessage = 10_000_000
	if len(m.Data) > maxMessage {
		return "", Errorf(eventhook.ErrorRefused, "the message has %d bytes: Pub/Sub takes at most %d",
			len(m.Data), maxMessage)
	}
	messages := []*pubsubpb.PubsubMessage{pubsubMessage(m)}
	answer, err := c.client.Publish(ctx, &pubsubpb.PublishRequest{Topic: b.Place(), Messages: messages})
	if err != nil {
		return "", c.describe(err)
	}
	return "message " + strings.Join(answer.GetMessageIds(), ", "), nil
}

func pubsubMessage(m targets.CloudEvent) *pubsubpb.PubsubMessage {
	message := &pubsubpb.PubsubMessage{Data: m.Data, OrderingKey: validUTF8(m.Key), Attributes: map[string]string{}}
	if m.ContentType != "" {
		message.Attributes["Content-Type"] = validUTF8(m.ContentType)
	}
	for _, a := range m.Attributes {
		message.Attributes["ce-"+a.Name] = validUTF8(a.Value)
	}
	return message
}

func validUTF8(s string) string { return strings.ToValidUTF8(s, "\ufffd") }

// describe returns the error of a message, and decides whether the connection takes further messages.
func (c *pubsubConnection) describe(err error) error {
	code := status.Code(err)
	if code == codes.Unavailable || code == codes.DeadlineExceeded || code == codes.Internal || code == codes.Unknown {
		c.retired.Store(true)
	}
	if trouble := c.trouble.Load(); trouble != nil && code == codes.Unavailable {
		return *trouble
	}
	return pubsubFailure(err)
}

// pubsubFailure describes the answers of the service.
func pubsubFailure(err error) error {
	answer, _ := status.FromError(err)
	text := eventhook.SanitizeLabel(answer.Message())
	switch code := answer.Code(); code {
	case codes.DeadlineExceeded:
		return context.DeadlineExceeded
	case codes.Unauthenticated:
		return Errorf(eventhook.ErrorAuth, "Pub/Sub does not accept the credentials, or they have expired")
	case codes.PermissionDenied:
		return Errorf(eventhook.ErrorAuth, "the service account may not publish to the topic")
	case codes.NotFound:
		return Errorf(eventhook.ErrorRefused, "the topic does not exist in the project")
	case codes.InvalidArgument, codes.FailedPrecondition, codes.OutOfRange, codes.Unimplemented:
		return Errorf(eventhook.ErrorRefused, "Pub/Sub answered %s: %s", code, text)
	case codes.ResourceExhausted:
		return Errorf(eventhook.ErrorHTTP5xx, "Pub/Sub limits the rate: %s", text)
	case codes.Internal, codes.Aborted:
		return Errorf(eventhook.ErrorHTTP5xx, "Pub/Sub answered %s: %s", code, text)
	default:
		return err
	}
}

// IsClosed implements Connection.
func (c *pubsubConnection) IsClosed() bool { return c.retired.Load() }

// Close implements Connection.
func (c *pubsubConnection) Close() { _ = c.conn.Close() }
