package brokers

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/targets"
)

func (b *Brokers) openSQS(_ context.Context, s *targets.SQS) (Connection, error) {
	c := &sqsConnection{http: b.sqsHTTP(maxSQSAnswer)}
	c.client = sqsClient(&s.SQSQueue, c.http)
	return c, nil
}

// sqsClient returns a client that never retries.
func sqsClient(s *targets.SQSQueue, http sqsHTTP) *sqs.Client {
	key := aws.Credentials{AccessKeyID: s.AccessKeyID, SecretAccessKey: s.SecretAccessKey, SessionToken: s.SessionToken}
	provide := func(context.Context) (aws.Credentials, error) { return key, nil }
	return sqs.New(sqs.Options{Region: s.Region, BaseEndpoint: aws.String(s.Endpoint()), HTTPClient: http,
		Credentials: aws.CredentialsProviderFunc(provide), Retryer: aws.NopRetryer{}}) // the caller retries
}

// sqsHTTP is the SDK's HTTP client. It follows no redirect. An answer of more than maxAnswer bytes is an error.
type sqsHTTP struct {
	client    *http.Client
	maxAnswer int64
}

const maxSQSAnswer = 64 << 10

func (b *Brokers) sqsHTTP(maxAnswer int64) sqsHTTP {
	const maxHeaders, handshake = 64 << 10, 10 * time.Second
	return sqsHTTP{maxAnswer: maxAnswer, client: &http.Client{
		Transport: &http.Transport{
			DialContext: b.Dialer.DialContext, TLSClientConfig: b.TLSConfig(""), TLSHandshakeTimeout: handshake,
			MaxConnsPerHost: slots, MaxIdleConnsPerHost: slots, IdleConnTimeout: maxIdle,
			MaxResponseHeaderBytes: maxHeaders, DisableCompression: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Do implements sqs.HTTPClient.
func (h sqsHTTP) Do(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		// The SDK closes the body after the head of the answer has come. If net/http has not ended to write then, it closes
		// the connection.
		r.Body = io.NopCloser(r.Body)
	}
	a, err := h.client.Do(r) //nolint:gosec // the dialer checks each address
	if err != nil {
		return nil, err
	}
	a.Body = http.MaxBytesReader(nil, a.Body, h.maxAnswer)
	return a, nil
}

// Codes of answers: see "Common errors" in the API reference of Amazon SQS, and the errors of SendMessage.
var (
	sqsLoginCodes = []string{
		"InvalidClientTokenId", "UnrecognizedClientException", "InvalidSecurity", "OptInRequired", "NotAuthorized",
		"SignatureDoesNotMatch", "InvalidSignatureException", "IncompleteSignature",
		"ExpiredToken", "ExpiredTokenException", "RequestExpired",
		"MissingAuthenticationToken", "MissingAuthenticationTokenException",
	}
	sqsPermissionCodes = []string{"AccessDenied", "AccessDeniedException", "KmsAccessDenied", "KMS.AccessDeniedException"}
	sqsThrottleCodes   = []string{
		"RequestThrottled", "ThrottlingException", "Throttling", "OverLimit", "KmsThrottled", "KMS.ThrottlingException",
	}
	sqsUnknownCodes = []string{"QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue"}
)

// sqsFailure describes the answers of the service. The messages about credentials quote the signed
// headers, and so the session token: users do not see them.
func sqsFailure(err error) error {
	answer, isAnswer := errors.AsType[smithy.APIError](err)
	status := 0
	if response, hasStatus := errors.AsType[*smithyhttp.ResponseError](err); hasStatus {
		status = response.HTTPStatusCode()
	}
	switch {
	case !isAnswer && status == 0:
		return err
	case !isAnswer:
		return Errorf(statusClass(status), "the server answered %d, not as Amazon SQS does", status)
	}
	code := eventhook.SanitizeLabel(answer.ErrorCode())
	is := func(codes []string) bool {
		return slices.Contains(codes, code)
	}
	switch {
	case is(sqsLoginCodes):
		return Errorf(eventhook.ErrorAuth, "Amazon SQS does not accept the credentials, or they expired: %s", code)
	case is(sqsPermissionCodes):
		return Errorf(eventhook.ErrorAuth, "the credentials do not suffice for the queue: %s", code)
	case is(sqsUnknownCodes):
		return Errorf(eventhook.ErrorRefused, "the queue does not exist in the region")
	case is(sqsThrottleCodes):
		return Errorf(eventhook.ErrorHTTP5xx, "Amazon SQS limits the rate: %s", code)
	case status >= http.StatusInternalServerError:
		return Errorf(eventhook.ErrorHTTP5xx, "Amazon SQS answered %d: %s", status, code)
	}
	reason := eventhook.SanitizeLabel(answer.ErrorMessage())
	return Errorf(eventhook.ErrorRefused, "Amazon SQS answered %s: %s", code, reason)
}

func statusClass(status int) eventhook.ErrorClass {
	switch status / 100 {
	case 4:
		return eventhook.ErrorHTTP4xx
	case 5:
		return eventhook.ErrorHTTP5xx
	}
	return eventhook.ErrorHTTP
}
