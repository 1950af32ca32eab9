package brokers_test

import (
	"context"
	"crypto/tls"
	"maps"
	"net/http"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"golang.org/x/oauth2/google"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/oauth"

	"github.com/eventhook/eventhook"
)

func BenchmarkJetStream(b *testing.B) {
	s := newNATS(b)
	f := open(b, s.target(nil))
	f.sent(f.delivery("application/json", order))
	first := must(s.messages.Next())
	js := s.Connect(nats.UserInfo("gateway", secret))
	benchClient(b, f, func(context.Context) error {
		m := &nats.Msg{Subject: first.Subject(), Header: maps.Clone(first.Headers()), Data: first.Data()}
		_, err := js.PublishMsg(b.Context(), m, jetstream.WithMsgID(eventhook.NewID[eventhook.Delivery](time.Now()).String()))
		return err
	})
}

func BenchmarkCoreNATS(b *testing.B) {
	s := newNATS(b)
	own := s.Connect(nats.UserInfo("gateway", secret)).Conn()
	sub := must(own.SubscribeSync("plain"))
	if err := own.Flush(); err != nil {
		b.Fatal(err)
	}
	f := open(b, s.target(map[string]any{"subject": "plain", "delivery": "core", "key_path": nil}))
	f.sent(f.delivery("application/json", order))
	m := must(sub.NextMsgWithContext(b.Context()))
	_ = sub.Unsubscribe()
	m = &nats.Msg{Subject: m.Subject, Header: m.Header, Data: m.Data}
	conn := s.Connect(nats.UserInfo("gateway", secret)).Conn()
	benchClient(b, f, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, receiveLimit) // FlushWithContext wants a deadline
		defer cancel()
		if err := conn.PublishMsg(m); err != nil {
			return err
		}
		return conn.FlushWithContext(ctx)
	})
}

// The server is the library's own fake, in the process of the benchmark.
func BenchmarkKafka(b *testing.B) {
	s := newKafka(b)
	f := open(b, s.target(nil))
	f.sent(f.delivery("application/json", order))
	first := s.record(b)
	s.reader.Close() // it would read along
	client := must(kgo.NewClient(kgo.SeedBrokers(s.address()), kgo.SASL(plain.Auth{User: "gateway", Pass: secret}.AsMechanism()),
		kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ProducerLinger(0), kgo.ProducerBatchCompression(kgo.NoCompression())))
	defer client.Close()
	benchClient(b, f, func(ctx context.Context) error {
		r := &kgo.Record{Topic: first.Topic, Key: first.Key, Value: first.Value, Headers: first.Headers}
		return client.ProduceSync(ctx, r).FirstErr()
	})
}

// The server is the fake of the tests.
func BenchmarkSQS(b *testing.B) {
	s := newSQS(b, "orders")
	f := open(b, s.target(nil))
	f.sent(f.delivery("application/json", order))
	first := next(b, s.messages)
	go func() { // forgets the messages
		for range s.messages {
			s.mu.Lock()
			s.stored = nil
			s.mu.Unlock()
		}
	}()
	b.Cleanup(func() {
		s.stop()
		close(s.messages)
	})
	key := aws.Credentials{AccessKeyID: sqsKeyID, SecretAccessKey: secret}
	client := sqs.New(sqs.Options{Region: sqsRegion, BaseEndpoint: aws.String("http://" + s.address), Retryer: aws.NopRetryer{},
		HTTPClient:  &http.Client{Transport: &http.Transport{MaxConnsPerHost: benchSlots, MaxIdleConnsPerHost: benchSlots}},
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) { return key, nil })})
	attributes := map[string]types.MessageAttributeValue{}
	for name, a := range first.MessageAttributes {
		attributes[name] = types.MessageAttributeValue{DataType: &a.DataType, StringValue: &a.StringValue}
	}
	url := s.url()
	benchClient(b, f, func(ctx context.Context) error {
		_, err := client.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: &url, MessageBody: &first.MessageBody, MessageAttributes: attributes})
		return err
	})
}

// The server is Google's own fake, in the process of the benchmark. Google's client library collects
// messages; the generated client of the API sends each one alone, as the gateway does.
func BenchmarkPubSub(b *testing.B) {
	s := newPubSub(b)
	f := open(b, s.target(nil))
	f.sent(f.delivery("application/json", order))
	first := next(b, s.messages)
	go func() {
		for range s.messages { // forgets the messages
		}
	}()
	b.Cleanup(func() {
		s.stop()
		close(s.messages)
	})
	tokens := must(google.JWTAccessTokenSourceWithScope([]byte(credentialsOf("first", rsaKeys()[0])), "https://www.googleapis.com/auth/pubsub"))
	conn := must(grpc.NewClient("passthrough:///"+s.address, grpc.WithPerRPCCredentials(oauth.TokenSource{TokenSource: tokens}),
		grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS12, RootCAs: trusted().RootCAs}))))
	defer conn.Close()
	client := pubsubpb.NewPublisherClient(conn)
	benchClient(b, f, func(ctx context.Context) error {
		m := &pubsubpb.PubsubMessage{Data: first.Data, OrderingKey: first.OrderingKey, Attributes: first.Attributes}
		_, err := client.Publish(ctx, &pubsubpb.PublishRequest{Topic: "projects/my-project/topics/orders", Messages: []*pubsubpb.PubsubMessage{m}})
		return err
	})
}
