package brokers_test

import (
	"bytes"
	"context"
	"net"
	"strconv"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"
)

// kafkaServer is franz-go's own fake of a cluster of Kafka with one broker, since no server of Kafka
// runs without a Java machine. It speaks the protocol, checks passwords and the sequence numbers of
// idempotent producers, and keeps its data over a restart.
type kafkaServer struct {
	*kfake.Cluster
	t       testing.TB
	options []kfake.Opt
	port    int
	reader  *kgo.Client

	mu        sync.Mutex
	passwords map[string]string // of the mechanism PLAIN, by user
}

const topicPartitions = 7

// newKafka starts a cluster with the topic orders.
func newKafka(t testing.TB, options ...kfake.Opt) *kafkaServer {
	t.Helper()
	s := &kafkaServer{t: t, passwords: map[string]string{"gateway": secret, "renewed": "another-" + secret, "reader": "r"}, options: append([]kfake.Opt{kfake.EnableSASL(), kfake.SeedTopics(topicPartitions, "orders"),
		kfake.Superuser("PLAIN", "gateway", secret), kfake.Superuser("PLAIN", "renewed", "another-"+secret), kfake.Superuser("PLAIN", "reader", "r"),
		kfake.Superuser("SCRAM-SHA-256", "scram", secret), kfake.Superuser("SCRAM-SHA-512", "scram", secret), kfake.DataDir(t.TempDir())}, options...)}
	s.start()
	t.Cleanup(s.stop)
	s.reader = must(kgo.NewClient(kgo.SeedBrokers(s.address()), kgo.ConsumeTopics("orders"), kgo.SASL(plain.Auth{User: "reader", Pass: "r"}.AsMechanism()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())))
	t.Cleanup(s.reader.Close)
	return s
}

func (s *kafkaServer) start() {
	s.Cluster = must(kfake.NewCluster(append(s.options, kfake.NumBrokers(1), kfake.Ports(s.port))...))
	_, port, _ := net.SplitHostPort(s.ListenAddrs()[0])
	s.port = must(strconv.Atoi(port))
	s.ControlKey(int16(kmsg.SASLAuthenticate), s.refusePassword)
}

func (s *kafkaServer) stop() { s.Close() }

func (s *kafkaServer) address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// refusePassword answers wrong passwords of the mechanism PLAIN as Kafka does. The fake would close the
// connection.
func (s *kafkaServer) refusePassword(request kmsg.Request) (kmsg.Response, error, bool) { //nolint:revive // kfake wants this order
	q := request.(*kmsg.SASLAuthenticateRequest)
	parts := bytes.Split(q.SASLAuthBytes, []byte{0})
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(parts) != 3 || s.passwords[string(parts[1])] == string(parts[2]) {
		return nil, nil, false
	}
	s.KeepControl()
	a := q.ResponseKind().(*kmsg.SASLAuthenticateResponse)
	a.ErrorCode = kerr.SaslAuthenticationFailed.Code
	a.ErrorMessage = kmsg.StringPtr("Authentication failed: invalid credentials " + secret)
	return a, nil, true
}

// setPassword changes the password of a user. It is asked for again by connections that are open.
func (s *kafkaServer) setPassword(user, password string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.passwords[user] = password
}

func (s *kafkaServer) target(members map[string]any) string {
	return targetJSON(map[string]any{"type": "kafka", "brokers": s.address(), "topic": "orders", "tls": false, "username": "gateway", "password": secret,
		"key_path": "body.customer.id"}, members)
}

func (s *kafkaServer) received(t *testing.T) received {
	t.Helper()
	r := s.record(t)
	headers := map[string]string{}
	for _, h := range r.Headers {
		headers[h.Key] = string(h.Value)
	}
	return received{Key: string(r.Key), ContentType: headers["content-type"], Attributes: cloudAttributes(headers, "ce_"), Data: string(r.Value)}
}

// record returns the next record of the topic.
func (s *kafkaServer) record(t testing.TB) *kgo.Record {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), receiveLimit)
	defer cancel()
	for {
		fetches := s.reader.PollRecords(ctx, 1)
		if records := fetches.Records(); len(records) > 0 {
			return records[0]
		}
		if ctx.Err() != nil {
			t.Fatal(errNoMessage)
		}
	}
}
