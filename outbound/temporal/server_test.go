//go:build temporal

package temporal_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http/httptest"
	"sync"
	"testing"

	"go.temporal.io/api/errordetails/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
)

// trusted has a certificate for 127.0.0.1, and the authorities that every fixture trusts.
var trusted = sync.OnceValue(func() *tls.Config {
	web := httptest.NewTLSServer(nil)
	defer web.Close()
	roots := x509.NewCertPool()
	roots.AddCert(web.Certificate())
	return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: web.TLS.Certificates, RootCAs: roots}
})

// server is a fake of a frontend of Temporal, with the namespace acme. test/temporal has tests against
// Temporal's own server.
type server struct {
	workflowservice.UnimplementedWorkflowServiceServer
	config  *tls.Config // nil: without TLS
	address string
	end     func()

	mu        sync.Mutex
	key       string            // the API key that is accepted
	workflows map[string]string // ids of workflows, and of the requests that started them
	starts    []*workflowservice.StartWorkflowExecutionRequest
	signals   []*workflowservice.SignalWorkflowExecutionRequest
	headers   metadata.MD // of the last request
	failure   error       // the answer to every request; nil: none
	isMute    bool        // no request is answered
	padding   string      // of each answer
}

func newServer(t testing.TB, config *tls.Config) *server {
	t.Helper()
	s := &server{config: config, address: "127.0.0.1:0", key: secret, workflows: map[string]string{}}
	s.start()
	t.Cleanup(func() { s.end() })
	return s
}

// start serves requests at the address that the server had before.
func (s *server) start() {
	l := must(net.Listen("tcp", s.address))
	s.address = l.Addr().String()
	options := []grpc.ServerOption{grpc.UnaryInterceptor(s.intercept), grpc.MaxRecvMsgSize(4 << 20)}
	if s.config != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(s.config)))
	}
	g := grpc.NewServer(options...)
	workflowservice.RegisterWorkflowServiceServer(g, s)
	var serving sync.WaitGroup
	serving.Go(func() { _ = g.Serve(l) })
	s.end = func() {
		g.Stop()
		_ = l.Close() // the server may not have begun
		serving.Wait()
	}
}

// change changes the state of the server.
func (s *server) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func (s *server) intercept(ctx context.Context, q any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	s.mu.Lock()
	headers, _ := metadata.FromIncomingContext(ctx)
	s.headers = headers
	failure, isMute := s.failure, s.isMute
	isKnown := s.key == "" || len(headers["authorization"]) == 1 && headers["authorization"][0] == "Bearer "+s.key
	s.mu.Unlock()
	switch {
	case isMute:
		<-ctx.Done()
		return nil, ctx.Err()
	case failure != nil:
		return nil, failure
	case !isKnown:
		return nil, detailed(codes.PermissionDenied, "Request unauthorized.", &errordetails.PermissionDeniedFailure{Reason: secret})
	case q.(interface{ GetNamespace() string }).GetNamespace() != "acme":
		return nil, detailed(codes.NotFound, "Namespace is not found.", &errordetails.NamespaceNotFoundFailure{Namespace: "other"})
	}
	return handle(ctx, q)
}

func detailed(code codes.Code, text string, detail proto.Message) error {
	return must(status.New(code, text).WithDetails(protoadapt.MessageV1Of(detail))).Err()
}

func (s *server) StartWorkflowExecution(_ context.Context, q *workflowservice.StartWorkflowExecutionRequest) (
	*workflowservice.StartWorkflowExecutionResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.starts = append(s.starts, q)
	if by, exists := s.workflows[q.GetWorkflowId()]; exists {
		return nil, detailed(codes.AlreadyExists, "Workflow execution already started", &errordetails.WorkflowExecutionAlreadyStartedFailure{
			StartRequestId: by, RunId: "run-1"})
	}
	s.workflows[q.GetWorkflowId()] = q.GetRequestId()
	return &workflowservice.StartWorkflowExecutionResponse{RunId: "run-1" + s.padding, Started: true}, nil
}

func (s *server) SignalWorkflowExecution(_ context.Context, q *workflowservice.SignalWorkflowExecutionRequest) (
	*workflowservice.SignalWorkflowExecutionResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.signals = append(s.signals, q)
	if _, exists := s.workflows[q.GetWorkflowExecution().GetWorkflowId()]; !exists {
		return nil, detailed(codes.NotFound, "workflow not found for ID: "+q.GetWorkflowExecution().GetWorkflowId(), &errordetails.NotFoundFailure{})
	}
	return &workflowservice.SignalWorkflowExecutionResponse{}, nil
}
