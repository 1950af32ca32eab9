package brokers_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/egress"
	"github.com/eventhook/eventhook/outbound"
)

func TestKafkaSpeaksSCRAM(t *testing.T) {
	s := newKafka(t)
	for _, mechanism := range []string{"scram-sha-256", "scram-sha-512"} {
		f := open(t, s.target(map[string]any{"mechanism": mechanism, "username": "scram"}))
		f.sent(f.delivery("application/json", order))
		f = open(t, s.target(map[string]any{"mechanism": mechanism, "username": "scram", "password": "another"}))
		f.fails(eventhook.ErrorAuth, eventhook.ErrorClosed) // the fake closes the connection; Kafka answers
	}
	s.ControlKey(int16(kmsg.SASLAuthenticate), func(q kmsg.Request) (kmsg.Response, error, bool) {
		a := q.ResponseKind().(*kmsg.SASLAuthenticateResponse)
		a.ErrorCode = kerr.SaslAuthenticationFailed.Code
		return a, nil, true
	})
	f := open(t, s.target(map[string]any{"mechanism": "scram-sha-512", "username": "scram", "password": "another"}))
	f.fails(eventhook.ErrorAuth)
}

func TestKafkaNamesAMechanismThatTheBrokerLacks(t *testing.T) {
	s := newKafka(t)
	s.ControlKey(int16(kmsg.SASLHandshake), func(q kmsg.Request) (kmsg.Response, error, bool) {
		s.KeepControl()
		a := q.ResponseKind().(*kmsg.SASLHandshakeResponse)
		a.ErrorCode = kerr.UnsupportedSaslMechanism.Code
		return a, nil, true
	})
	f := open(t, s.target(nil))
	if a := f.send(f.delivery("application/json", order)); a.ErrorClass != eventhook.ErrorAuth || !strings.Contains(a.Error, "mechanism") {
		t.Errorf("got %q: %s", a.ErrorClass, a.Error)
	}
}

// The server asks for the password again after each message, as Kafka does after
// connections.max.reauth.ms.
func TestKafkaFailsWhenItsCredentialsExpireAndRecoversWithNewOnes(t *testing.T) {
	s := newKafka(t, kfake.BrokerConfigs(map[string]string{"connections.max.reauth.ms": "1"}))
	f := open(t, s.target(map[string]any{"timeout_seconds": 60}))
	f.sent(f.delivery("application/json", order))
	f.sent(f.delivery("application/json", order))
	s.setPassword("gateway", "")
	f.failsAtOnce(eventhook.ErrorAuth)
	f.failsAtOnce(eventhook.ErrorAuth)
	f.target = f.compile(s.target(map[string]any{"username": "renewed", "password": "another-" + secret}))
	f.sent(f.delivery("application/json", order))
}

// The broker may have stored the message, so the client cannot drop it.
func TestKafkaFailsWhenItsCredentialsExpireBeforeTheAcknowledgement(t *testing.T) {
	s := newKafka(t)
	f := open(t, s.target(map[string]any{"timeout_seconds": 60}))
	f.sent(f.delivery("application/json", order))
	s.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		s.setPassword("gateway", "")
		return nil, errors.New("the connection breaks"), true
	})
	f.failsAtOnce(eventhook.ErrorAuth)
}

// failsAtOnce sends a delivery that must fail before the end of its time, which is a minute.
func (f *fixture) failsAtOnce(class eventhook.ErrorClass) eventhook.Attempt {
	f.Helper()
	a := f.send(f.delivery("application/json", order))
	if a.ErrorClass != class || a.Duration > 45*time.Second {
		f.Errorf("got %q after %s: %s; want %q at once", a.ErrorClass, a.Duration, a.Error, class)
	}
	return a
}

func TestKafkaNeedsPermissionToWrite(t *testing.T) {
	s := newKafka(t, kfake.EnableACLs(), kfake.User("PLAIN", "reader-only", secret, kfake.ACL{Resource: kmsg.ACLResourceTypeTopic, Name: "orders",
		Pattern: kmsg.ACLResourcePatternTypeLiteral, Operation: kmsg.ACLOperationRead, Allow: true}))
	s.setPassword("reader-only", secret)
	f := open(t, s.target(map[string]any{"username": "reader-only"}))
	if a := f.send(f.delivery("application/json", order)); a.ErrorClass != eventhook.ErrorAuth || !strings.Contains(a.Error, "may not write") {
		t.Errorf("got %q: %s", a.ErrorClass, a.Error)
	}
}

// A cluster decides which addresses its clients connect to.
func TestKafkaDoesNotConnectToAdvertisedAddressesThatAreNotAllowed(t *testing.T) {
	s := newKafka(t)
	s.ControlKey(int16(kmsg.Metadata), func(request kmsg.Request) (kmsg.Response, error, bool) {
		s.KeepControl()
		return advertise(request.(*kmsg.MetadataRequest), "10.11.12.13"), nil, true
	})
	allowed := netip.MustParsePrefix("127.0.0.1/32")
	f := openWith(t, s.target(map[string]any{"timeout_seconds": 60}), allowed)
	a := f.failsAtOnce(eventhook.ErrorBlocked)
	const want = "the broker advertises 10.11.12.13:9092: the address of 10.11.12.13:9092 is not public"
	if !strings.HasPrefix(a.Error, want) {
		t.Errorf("got %q, want %q", a.Error, want)
	}
	k := s.consumed()
	k.isLazy = true // the first address is allowed
	_, err := k.tryConsume(t, egress.New(egress.Policy{AllowedCIDRs: []netip.Prefix{allowed}}), nil)
	if wantError(t, err, eventhook.ErrorBlocked); !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %q of a consumer, want %q", err, want)
	}
}

// advertise answers a request with one broker that leads all partitions.
func advertise(q *kmsg.MetadataRequest, host string) kmsg.Response {
	a := q.ResponseKind().(*kmsg.MetadataResponse)
	b := kmsg.NewMetadataResponseBroker()
	b.Host, b.Port = host, 9092
	a.Brokers = append(a.Brokers, b)
	for _, asked := range q.Topics {
		topic := kmsg.NewMetadataResponseTopic()
		topic.Topic, topic.TopicID = asked.Topic, [16]byte{1}
		topic.Partitions = append(topic.Partitions, kmsg.NewMetadataResponseTopicPartition())
		a.Topics = append(a.Topics, topic)
	}
	return a
}

func TestKafkaThatNeverConfirms(t *testing.T) {
	s := newKafka(t)
	s.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		s.KeepControl()
		return nil, nil, true
	})
	f := open(t, s.target(map[string]any{"timeout_seconds": 1}))
	f.fails(eventhook.ErrorTimeout)
}

// The first message waits at the broker, and others wait behind it in the client. The time of some of
// them ends. Then messages use another connection, and the messages that wait keep theirs.
func TestKafkaKeepsAConnectionForTheMessagesThatWait(t *testing.T) {
	s := newKafka(t)
	var isHeld atomic.Bool
	held, confirm := make(chan struct{}), make(chan struct{})
	s.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		if !isHeld.Swap(true) {
			close(held)
			s.SleepControl(func() { <-confirm })
		}
		return nil, nil, false
	})
	f := open(t, s.target(map[string]any{"timeout_seconds": 60}))
	impatient := f.compile(s.target(map[string]any{"timeout_seconds": 1}))
	var late, patient sync.WaitGroup
	expect := func(wait *sync.WaitGroup, to *outbound.Target, class eventhook.ErrorClass) {
		wait.Go(func() {
			if a := to.Transport.Send(t.Context(), f.delivery("application/json", order), 1); a.ErrorClass != class {
				t.Errorf("got %q: %s; want %q", a.ErrorClass, a.Error, class)
			}
		})
	}
	expect(&patient, f.target, "")
	<-held
	for range 5 {
		expect(&late, impatient, eventhook.ErrorTimeout)
	}
	open(t, s.target(nil)).sent(f.delivery("application/json", order)) // meanwhile, the client gets the others
	for range 5 {
		expect(&patient, f.target, "")
	}
	late.Wait()
	f.sent(f.delivery("application/json", order))
	if n := f.brokers.Open(); n != 1 {
		t.Errorf("%d connections are open for further messages, want one", n)
	}
	close(confirm)
	patient.Wait()
}

func TestKafkaChecksTheCertificate(t *testing.T) {
	certificate, ca := selfSigned()
	s := newKafka(t, kfake.TLS(&tls.Config{Certificates: []tls.Certificate{certificate}}))
	f := open(t, s.target(map[string]any{"tls": true, "ca": ca}))
	f.sent(f.delivery("application/json", order))
	f = open(t, s.target(map[string]any{"tls": true}))
	f.fails(eventhook.ErrorTLS)
	f = open(t, s.target(map[string]any{"tls": false, "timeout_seconds": 2}))
	f.fails(eventhook.ErrorClosed, eventhook.ErrorTimeout)
}

// The sockets of one client are bounded. A message that needs a further one has made an attempt.
func TestKafkaConnectsToABoundedNumberOfBrokers(t *testing.T) {
	const nodes, partitions = 130, 1000
	cluster := must(kfake.NewCluster(kfake.NumBrokers(nodes), kfake.SeedTopics(partitions, "orders")))
	t.Cleanup(cluster.Close)
	f := open(t, targetJSON(map[string]any{"type": "kafka", "brokers": cluster.ListenAddrs()[0], "topic": "orders", "tls": false,
		"partition_path": "body.shard", "timeout_seconds": 2}, nil))
	for shard := range partitions {
		a := f.send(f.delivery("application/json", fmt.Sprintf(`{"shard":%d}`, shard)))
		if a.Succeeded() {
			continue
		}
		if a.ErrorClass != eventhook.ErrorClosed || !strings.Contains(a.Error, "open connections") {
			t.Errorf("partition %d: got %q: %s", shard, a.ErrorClass, a.Error)
		}
		return
	}
	t.Error("the gateway is connected to all brokers")
}
