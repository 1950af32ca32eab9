//go:build temporal

package outbound_test

import (
	"context"
	"net"
	"sync"
	"syscall"

	"go.temporal.io/api/errordetails/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/egress"
	"github.com/eventhook/eventhook/outbound"
)

// temporalFake is a frontend of Temporal within a synctest bubble. It implements brokers.Dialer and
// net.Listener: connections are pipes.
type temporalFake struct {
	*egress.Client // Explain
	workflowservice.UnimplementedWorkflowServiceServer

	mu        sync.Mutex
	workflows map[string]string // ids of workflows, and of the requests that started them
	dials     int
	isSilent  bool // workflows start, and no acknowledgement follows
	incoming  chan net.Conn
	running   *grpc.Server // nil while the server is down
	closed    chan struct{}
	serving   sync.WaitGroup
}

func (s *temporalFake) start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.isSilent, s.closed = false, make(chan struct{})
	s.running = grpc.NewServer()
	workflowservice.RegisterWorkflowServiceServer(s.running, s)
	running := s.running
	s.serving.Go(func() { _ = running.Serve(temporalListener{s, s.closed}) })
}

func (s *temporalFake) stop() {
	s.mu.Lock()
	running := s.running
	s.running = nil
	s.mu.Unlock()
	if running != nil {
		running.Stop()
	}
	s.serving.Wait()
}

// DialContext implements brokers.Dialer.
func (s *temporalFake) DialContext(_ context.Context, network, _ string) (net.Conn, error) {
	s.mu.Lock()
	s.dials++
	closed, isUp := s.closed, s.running != nil
	s.mu.Unlock()
	near, far := net.Pipe()
	if isUp {
		select {
		case s.incoming <- far:
			return near, nil
		case <-closed:
		}
	}
	return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
}

func (s *temporalFake) StartWorkflowExecution(ctx context.Context, q *workflowservice.StartWorkflowExecutionRequest) (
	*workflowservice.StartWorkflowExecutionResponse, error) {
	s.mu.Lock()
	by, exists := s.workflows[q.GetWorkflowId()]
	if !exists {
		s.workflows[q.GetWorkflowId()] = q.GetRequestId()
	}
	isSilent := s.isSilent
	s.mu.Unlock()
	if isSilent {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if exists {
		detail := &errordetails.WorkflowExecutionAlreadyStartedFailure{StartRequestId: by}
		answer, err := status.New(codes.AlreadyExists, "started").WithDetails(detail)
		if err != nil {
			return nil, err
		}
		return nil, answer.Err()
	}
	return &workflowservice.StartWorkflowExecutionResponse{RunId: "run"}, nil
}

// temporalListener accepts the connections of one run of the server.
type temporalListener struct {
	s      *temporalFake
	closed chan struct{}
}

func (l temporalListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.s.incoming:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l temporalListener) Close() error {
	close(l.closed)
	return nil
}

func (temporalListener) Addr() net.Addr { return &net.TCPAddr{} }

// countedTransport counts the successful attempts by their status.
type countedTransport struct {
	outbound.Transport
	mu       sync.Mutex
	statuses map[int]int
}

func (c *countedTransport) Send(ctx context.Context, d *eventhook.Delivery, attempt int) eventhook.Attempt {
	a := c.Transport.Send(ctx, d, attempt)
	c.mu.Lock()
	defer c.mu.Unlock()
	if a.Succeeded() {
		c.statuses[a.StatusCode]++
	}
	return a
}
