package brokers_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"cloud.google.com/go/pubsub/v2/pstest"
	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// pubsubServer is Google's own fake of Pub/Sub, since no server of it can be had. Its service runs behind
// TLS and a check of the signature, the time and the scope of the tokens. It does not know permissions
// and limits.
type pubsubServer struct {
	t        testing.TB
	fake     *pstest.Server
	address  string
	end      func()
	messages chan *pubsubpb.PubsubMessage

	mu      sync.Mutex
	keys    map[string]*rsa.PublicKey // that are trusted, by their ids
	failure error                     // the answer to every request; nil: none
	isMute  bool                      // no request is answered
	later   time.Duration             // how much the clock is fast
}

const serviceAccount = "gateway@my-project.iam.gserviceaccount.com"

// rsaKeys are two keys of the service account.
var rsaKeys = sync.OnceValue(func() [2]*rsa.PrivateKey {
	const bits = 2048
	return [2]*rsa.PrivateKey{must(rsa.GenerateKey(rand.Reader, bits)), must(rsa.GenerateKey(rand.Reader, bits))}
})

// credentialsOf returns the JSON key of the service account.
func credentialsOf(id string, key *rsa.PrivateKey) string {
	private := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: must(x509.MarshalPKCS8PrivateKey(key))}))
	return string(must(json.Marshal(map[string]string{"type": "service_account", "project_id": "my-project", "client_email": serviceAccount,
		"private_key_id": id, "private_key": private, "token_uri": "https://oauth2.example/token"})))
}

func newPubSub(t testing.TB) *pubsubServer {
	t.Helper()
	s := &pubsubServer{t: t, fake: pstest.NewServer(), address: "127.0.0.1:0", messages: make(chan *pubsubpb.PubsubMessage, 100),
		keys: map[string]*rsa.PublicKey{"first": &rsaKeys()[0].PublicKey}}
	t.Cleanup(func() { _ = s.fake.Close() })
	must(s.fake.GServer.CreateTopic(t.Context(), &pubsubpb.Topic{Name: "projects/my-project/topics/orders"}))
	s.start()
	t.Cleanup(s.stop)
	return s
}

func (s *pubsubServer) start() { s.serve(trusted().Certificates[0]) }

func (s *pubsubServer) serve(certificate tls.Certificate) {
	l := must(net.Listen("tcp", s.address))
	s.address = l.Addr().String()
	server := grpc.NewServer(grpc.Creds(credentials.NewServerTLSFromCert(&certificate)), grpc.UnaryInterceptor(s.intercept))
	pubsubpb.RegisterPublisherServer(server, &s.fake.GServer)
	go func() { _ = server.Serve(l) }()
	s.end = func() {
		server.Stop()
		_ = l.Close() // the server may not have begun
	}
}

// change changes the state of the server.
func (s *pubsubServer) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func (s *pubsubServer) stop() { s.end() }

func (s *pubsubServer) target(members map[string]any) string {
	return targetJSON(map[string]any{"type": "pubsub", "project": "my-project", "topic": "orders", "endpoint": s.address,
		"credentials": credentialsOf("first", rsaKeys()[0]), "key_path": "body.customer.id"}, members)
}

func (s *pubsubServer) intercept(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	s.mu.Lock()
	err, isMute := s.checkToken(ctx), s.isMute
	if err == nil {
		err = s.failure
	}
	s.mu.Unlock()
	if isMute {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	answer, err := handle(ctx, request)
	if err == nil {
		for _, m := range request.(*pubsubpb.PublishRequest).Messages {
			s.messages <- m
		}
	}
	return answer, err
}

// checkToken checks the token of a request: a JWT that the service account has signed itself.
func (s *pubsubServer) checkToken(ctx context.Context) error {
	refused := status.Error(codes.Unauthenticated, "Request had invalid authentication credentials.")
	sent, _ := metadata.FromIncomingContext(ctx)
	text, _ := strings.CutPrefix(strings.Join(sent.Get("authorization"), ","), "Bearer ")
	token, err := jwt.ParseSigned(text, []jose.SignatureAlgorithm{jose.RS256})
	if err != nil || s.keys[token.Headers[0].KeyID] == nil {
		return refused
	}
	var claims struct {
		jwt.Claims
		Scope string `json:"scope"`
	}
	if err := token.Claims(s.keys[token.Headers[0].KeyID], &claims); err != nil || claims.Scope != "https://www.googleapis.com/auth/pubsub" {
		return refused
	}
	if err := claims.Validate(jwt.Expected{Issuer: serviceAccount, Subject: serviceAccount, Time: time.Now().Add(s.later)}); err != nil {
		return refused
	}
	return nil
}

func (s *pubsubServer) received(t *testing.T) received {
	t.Helper()
	m := next(t, s.messages)
	return received{Key: m.OrderingKey, ContentType: m.Attributes["Content-Type"], Attributes: cloudAttributes(m.Attributes, "ce-"), Data: string(m.Data)}
}
