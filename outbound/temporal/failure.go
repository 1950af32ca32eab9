//go:build temporal

package temporal

import (
	"context"
	"errors"
	"net"
	"strings"

	"go.temporal.io/api/errordetails/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/outbound/brokers"
)

var errNoWorkflow = brokers.Errorf(eventhook.ErrorRefused, "the namespace has no open workflow with this id: it is not started yet, or has ended")

// describe returns the error of a request. It decides whether the connection takes further requests:
// another connection is opened at once, whereas gRPC would wait before it connects again.
func (c *connection) describe(err error, isAnswer bool) error {
	if isAnswer {
		return failureOf(err)
	}
	switch status.Code(err) {
	case codes.Canceled:
		return context.Canceled
	case codes.DeadlineExceeded:
		c.retired.Store(true)
		return context.DeadlineExceeded
	case codes.Unavailable, codes.Unknown, codes.Internal:
		c.retired.Store(true)
		if trouble := c.trouble.Load(); trouble != nil {
			return certificateFailure(*trouble)
		}
		return err
	default:
		return failureOf(err)
	}
}

// certificateFailure describes an alert of TLS by which a server refuses a client certificate.
func certificateFailure(err error) error {
	var alert *net.OpError
	if errors.As(err, &alert) && alert.Op == "remote error" && strings.Contains(alert.Err.Error(), "certificate") {
		return brokers.Errorf(eventhook.ErrorAuth, "Temporal does not accept the client certificate, it has expired, or there is none")
	}
	return err
}

// failureOf describes an answer of Temporal. That a workflow exists or does not exist stays as it is: see
// existingWorkflow and isNotFound.
func failureOf(err error) error {
	switch code := status.Code(err); code {
	case codes.AlreadyExists:
		return err
	case codes.NotFound:
		if isDetailed[*errordetails.NamespaceNotFoundFailure](err) {
			return brokers.Errorf(eventhook.ErrorRefused, "the namespace does not exist")
		}
		return err
	case codes.Unauthenticated, codes.PermissionDenied:
		return brokers.Errorf(eventhook.ErrorAuth, "Temporal does not accept the credentials, they have expired, or they may not use the namespace")
	case codes.InvalidArgument, codes.FailedPrecondition, codes.OutOfRange, codes.Unimplemented:
		return refusal(err)
	case codes.ResourceExhausted:
		return brokers.Errorf(eventhook.ErrorHTTP5xx, "Temporal limits the rate: %s", textOf(err))
	case codes.DeadlineExceeded:
		return context.DeadlineExceeded
	default:
		return brokers.Errorf(eventhook.ErrorHTTP5xx, "Temporal answered %s: %s", code, textOf(err))
	}
}

func refusal(err error) error {
	return brokers.Errorf(eventhook.ErrorRefused, "Temporal answered %s: %s", status.Code(err), textOf(err))
}

// textOf returns the text of an answer.
func textOf(err error) string {
	answer, _ := status.FromError(err)
	return eventhook.SanitizeLabel(answer.Message())
}

// existingWorkflow returns the workflow that has the id of one to be started, nil for other errors.
func existingWorkflow(err error) *errordetails.WorkflowExecutionAlreadyStartedFailure {
	if status.Code(err) != codes.AlreadyExists {
		return nil
	}
	existing, _ := detailOf[*errordetails.WorkflowExecutionAlreadyStartedFailure](err)
	if existing == nil {
		existing = &errordetails.WorkflowExecutionAlreadyStartedFailure{}
	}
	return existing
}

func isNotFound(err error) bool { return status.Code(err) == codes.NotFound }

func isDetailed[D any](err error) bool {
	_, ok := detailOf[D](err)
	return ok
}

// detailOf returns the detail of a type that an answer has.
func detailOf[D any](err error) (detail D, ok bool) {
	answer, _ := status.FromError(err)
	for _, one := range answer.Details() {
		if detail, ok = one.(D); ok {
			return detail, true
		}
	}
	return detail, false
}
