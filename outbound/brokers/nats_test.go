package brokers_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"maps"
	"net"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/certfile/certfiletest"
	"github.com/eventhook/eventhook/internal/natstest"
)

// natsServer is a NATS server with a stream of all subjects that begin with orders.
type natsServer struct {
	*natstest.Server
	messages jetstream.MessagesContext
}

func newNATS(t testing.TB) *natsServer {
	t.Helper()
	s := &natsServer{Server: natstest.New(t, func(o *server.Options) { o.Username, o.Password = "gateway", secret })}
	js := s.Connect(nats.UserInfo("gateway", secret))
	stream := must(js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.>"}}))
	consumer := must(stream.CreateConsumer(t.Context(), jetstream.ConsumerConfig{AckPolicy: jetstream.AckNonePolicy}))
	s.messages = must(consumer.Messages(jetstream.PullMaxMessages(1), jetstream.PullHeartbeat(time.Second)))
	t.Cleanup(s.messages.Stop)
	return s
}

func (s *natsServer) target(members map[string]any) string {
	return targetJSON(map[string]any{"type": "nats", "url": s.URL(), "subject": "orders.{key}", "username": "gateway", "password": secret,
		"key_path": "body.customer.id"}, members)
}

func (s *natsServer) received(t *testing.T) received {
	t.Helper()
	for {
		m, err := s.messages.Next()
		if err != nil && t.Context().Err() == nil {
			continue // a heartbeat is missing while the server is stopped
		}
		if err != nil {
			t.Fatal(err)
		}
		headers := map[string]string{}
		for name := range m.Headers() {
			headers[name] = m.Headers().Get(name)
		}
		return received{Key: strings.TrimPrefix(m.Subject(), "orders."), ContentType: headers["Content-Type"],
			Attributes: cloudAttributes(headers, "ce-"), Data: string(m.Data())}
	}
}

func (s *natsServer) stop()  { s.Stop() }
func (s *natsServer) start() { s.Start() }

func TestNATS(t *testing.T) {
	testKind(t, kind{server: newNATS(t), unknown: map[string]any{"subject": "nowhere"}, unknownClass: eventhook.ErrorRefused,
		wrong: map[string]any{"password": "another"}})
}

func TestTheContentTypeIsAHeaderOfNATS(t *testing.T) {
	s := newNATS(t)
	f := open(t, s.target(map[string]any{"body": "raw"}))
	for sent, want := range map[string]string{"application/json; charset=utf-8": "application/json; charset=utf-8",
		"text/plain; name=\"50% \u00e4\"\r\nNats-Msg-Id: x": "text/plain; name=\"50% ?\"??Nats-Msg-Id: x", "": ""} {
		f.sent(f.delivery(sent, order))
		if got := s.received(t).ContentType; got != want {
			t.Errorf("%q: got %q, want %q", sent, got, want)
		}
	}
}

func TestJetStreamStoresARepetitionOnce(t *testing.T) {
	s := newNATS(t)
	f := open(t, s.target(nil))
	d := f.delivery("application/json", order)
	first, second := f.sent(d), f.sent(d)
	if !strings.Contains(second.Excerpt, "stored before") || strings.Contains(first.Excerpt, "stored before") {
		t.Errorf("got the receipts %q and %q, want a repetition", first.Excerpt, second.Excerpt)
	}
}

func TestCoreNATSNeedsNoStream(t *testing.T) {
	s := newNATS(t)
	f := open(t, s.target(map[string]any{"subject": "plain", "delivery": "core", "key_path": nil}))
	conn := s.Connect(nats.UserInfo("gateway", secret)).Conn()
	sub := must(conn.SubscribeSync("plain"))
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
	f.sent(f.delivery("application/json", order))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if m, err := sub.NextMsgWithContext(ctx); err != nil || string(m.Data) != order {
		t.Errorf("got %v, %v; want the message", m, err)
	}
}

func TestALongSubjectOfNATSDoesNotCloseTheConnection(t *testing.T) {
	s := newNATS(t)
	f := open(t, s.target(map[string]any{"subject": "orders" + strings.Repeat(".{key}", 40), "delivery": "core"}))
	if got := f.send(f.delivery("application/json", strings.Replace(order, "c-42", strings.Repeat("c", 200), 1))); got.ErrorClass != eventhook.ErrorRefused {
		t.Errorf("a subject of 8 KB: got %+v, want the class refused", got)
	}
	f.sent(f.delivery("application/json", order))
}

func TestNATSRefusesSubjectsWithoutPermission(t *testing.T) {
	s := natstest.New(t, func(o *server.Options) {
		o.Users = []*server.User{{Username: "gateway", Password: secret, Permissions: &server.Permissions{
			Publish: &server.SubjectPermission{Allow: []string{"allowed"}}}}}
	})
	for delivery, subject := range map[string]string{"core": "secret.subject", "jetstream": "secret.subject"} {
		f := open(t, targetJSON(map[string]any{"type": "nats", "url": s.URL(), "subject": subject, "delivery": delivery,
			"username": "gateway", "password": secret, "timeout_seconds": 2}, nil))
		f.fails(eventhook.ErrorAuth, eventhook.ErrorTimeout)
	}
}

// targetJSON returns a target with the members replaced; nil removes a member.
func targetJSON(base, members map[string]any) string {
	all := maps.Clone(base)
	for name, value := range members {
		if all[name] = value; value == nil {
			delete(all, name)
		}
	}
	return string(must(json.Marshal(all)))
}

var address = regexp.MustCompile(`127\.0\.0\.1:\d+`)

// at replaces the address of the server in a target.
func at(target, other string) string { return address.ReplaceAllString(target, other) }

func TestNATSThatRefusesTheConnection(t *testing.T) {
	l := must(net.Listen("tcp", "127.0.0.1:0"))
	_ = l.Close()
	open(t, at(newNATS(t).target(nil), l.Addr().String())).failsWith(eventhook.ErrorConnect, l.Addr().String()+" refused the connection")
}

func TestNATSWithTLS(t *testing.T) {
	files := certfiletest.New(t, "nats", time.Now().Add(time.Hour))
	pair := must(tls.LoadX509KeyPair(files.Cert, files.Key))
	for claim, required := range map[string]bool{"required": true, "available": false} {
		t.Run(claim, func(t *testing.T) {
			s := natstest.New(t, func(o *server.Options) {
				o.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}
				o.TLS, o.AllowNonTLS = required, !required
			})
			js := s.Connect(nats.Secure(&tls.Config{MinVersion: tls.VersionTLS12, RootCAs: files.Pool(t)}))
			must(js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.>"}}))
			ca := string(must(os.ReadFile(files.Cert)))
			target := func(scheme, ca string) string {
				return targetJSON(map[string]any{"type": "nats", "url": strings.Replace(s.URL(), "nats", scheme, 1), "subject": "orders.x", "ca": ca}, nil)
			}
			f := open(t, target("tls", ca))
			f.sent(f.delivery("application/json", order))
			open(t, target("tls", "")).fails(eventhook.ErrorTLS)
			open(t, target("TLS", "")).fails(eventhook.ErrorTLS)
			plain := open(t, target("nats", ca))
			plain.sent(plain.delivery("application/json", order)) // with TLS if the server requires it
		})
	}
	s := natstest.New(t, nil)
	open(t, targetJSON(map[string]any{"type": "nats", "url": strings.Replace(s.URL(), "nats", "tls", 1), "subject": "orders.x"}, nil)).
		fails(eventhook.ErrorTLS)
}

// A server that announces impossible messages ends its connection only.
func TestHostileServersOfNATS(t *testing.T) {
	const info = `INFO {"server_id":"x","max_payload":1048576,"headers":true,"proto":1}` + "\r\n"
	for claim, answer := range map[string]string{
		"a message of 9 EB":           "MSG x 1 9000000000000000000\r\nab",
		"a message of 2 GB":           "MSG x 1 2000000000\r\nab",
		"a negative size":             "MSG x 1 -5\r\nab",
		"a size that is no number":    "msg x 1 zz\r\nab",
		"headers longer than all":     "HMSG x 1 900 10\r\nab",
		"headers of 9 EB":             "HMSG x 1 9000000000000000000 9000000000000000001\r\n",
		"a line that does not end":    strings.Repeat("x", 1<<20),
		"an INFO that does not end":   "INFO " + strings.Repeat("{", 1<<20),
		"an INFO that is no document": "INFO nonsense\r\n",
		"another protocol":            "HTTP/1.1 400 Bad Request\r\n\r\n",
	} {
		t.Run(claim, func(t *testing.T) {
			l := must(net.Listen("tcp", "127.0.0.1:0"))
			t.Cleanup(func() { _ = l.Close() })
			go func() {
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					go func() {
						defer c.Close()
						if !strings.HasPrefix(answer, "INFO") && !strings.HasPrefix(answer, "HTTP") {
							_, _ = io.WriteString(c, info)
							_, _ = c.Read(make([]byte, 1<<10)) // CONNECT and PING
							_, _ = io.WriteString(c, "PONG\r\n")
						}
						_, _ = io.WriteString(c, answer)
						_, _ = io.Copy(io.Discard, c)
					}()
				}
			}()
			f := open(t, targetJSON(map[string]any{"type": "nats", "url": "nats://" + l.Addr().String(), "subject": "orders.x", "timeout_seconds": 1}, nil))
			f.fails(eventhook.ErrorClosed, eventhook.ErrorTimeout)
		})
	}
}
