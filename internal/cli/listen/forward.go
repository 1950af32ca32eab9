package listen

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/client"
)

// forwarder sends webhooks to the program, one at a time. One goroutine may use it.
type forwarder struct {
	Config
	last    *exchange
	lacking map[string]bool // headers without a stored value that the user was told about
}

func newForwarder(c Config) *forwarder { return &forwarder{Config: c, lacking: map[string]bool{}} }

// exchange is a webhook and the answer of the program.
type exchange struct {
	arrival arrival
	request *http.Request
	body    []byte
	answer  *http.Response // nil without an answer; its body is closed
	excerpt []byte         // the beginning of the answer's body

	EventID     string    `json:"event_id"`
	Source      *string   `json:"source"`
	EventType   string    `json:"event_type"`
	ReceivedAt  time.Time `json:"received_at"`
	Method      string    `json:"method"`
	URL         string    `json:"url"`
	StatusCode  *int      `json:"status_code"`
	DurationMS  *int64    `json:"duration_ms"`
	Error       *string   `json:"error"`
	Replayed    bool      `json:"replayed"`
	DuplicateOf *string   `json:"duplicate_of"`
	DeliveryID  *string   `json:"delivery_id,omitempty"`
}

func (x *exchange) isSuccess() bool {
	return x.StatusCode != nil && *x.StatusCode/100 == http.StatusOK/100
}

// forward reads a webhook, sends it and prints the result. Its error is that of a gateway that
// refuses the request, or of the output.
func (f *forwarder) forward(ctx context.Context, a arrival, again bool) (*exchange, error) {
	x := &exchange{arrival: a, EventID: a.ID, Source: optional(a.Source), EventType: a.Type, ReceivedAt: a.ReceivedAt, Replayed: again, DuplicateOf: optional(a.DuplicateOf),
		DeliveryID: optional(a.DeliveryID)}
	if a.DuplicateOf != "" && !f.Duplicates && !again {
		x.Error = new("a duplicate, which is not forwarded without --duplicates")
		return x, f.print(x)
	}
	e, body, err := f.read(ctx, a)
	switch {
	case err != nil && ctx.Err() != nil:
		return x, nil //nolint:nilerr // ctx has ended the call
	case !again && client.StatusOf(err) == http.StatusNotFound: // not for a replay, whose id may be wrong
		x.Error = new("it is not stored any more")
		return x, f.print(x)
	case errors.Is(err, errNoPayload) || client.StatusOf(err) == http.StatusConflict:
		x.Error = new(err.Error())
		return x, f.print(x)
	case err != nil:
		return nil, err
	}
	f.send(ctx, x, e, body)
	if ctx.Err() != nil && x.answer == nil {
		return x, nil
	}
	f.last = x
	return x, f.print(x)
}

var errNoPayload = errors.New("its payload is past the retention period")

// read reads an event and its payload, again until the gateway answers.
func (f *forwarder) read(ctx context.Context, a arrival) (e client.EventDetail, body []byte, err error) {
	for wait := minPause; ; wait = min(2*wait, maxPause) {
		if a.DeliveryID != "" {
			e, body, err = f.readDelivery(ctx, a)
		} else {
			e, body, err = f.readEvent(ctx, a.ID)
		}
		if err == nil || errors.Is(err, errNoPayload) || !client.IsTemporary(err) || ctx.Err() != nil {
			return e, body, err
		}
		f.note("The gateway cannot be read (%v); trying again in %s.", err, wait)
		if !f.Pause(ctx, wait) {
			return e, nil, ctx.Err()
		}
	}
}

func (f *forwarder) readEvent(ctx context.Context, id string) (e client.EventDetail, body []byte, err error) {
	if e, err = f.Client.GetEvent(ctx, f.Tenant, id, client.GetEventParams{}); err != nil {
		return e, nil, err
	}
	if _, body, err = f.Client.Payload(ctx, f.Tenant, id); client.StatusOf(err) == http.StatusNotFound {
		err = errNoPayload
	}
	return e, body, err
}

// send sends an event to the program and completes x.
func (f *forwarder) send(ctx context.Context, x *exchange, e client.EventDetail, body []byte) {
	x.arrival = arrival{e.ID, text(e.Source), e.EventType, e.ReceivedAt, text(e.DuplicateOf), x.arrival.DeliveryID}
	x.EventID, x.Source, x.EventType, x.ReceivedAt, x.DuplicateOf = e.ID, e.Source, e.EventType, e.ReceivedAt, e.DuplicateOf
	x.body = body
	request, err := f.compose(ctx, e, body)
	if err != nil {
		x.Error = new(err.Error())
		return
	}
	x.request, x.Method, x.URL = request, request.Method, request.URL.Redacted()
	if f.Forward == nil {
		return
	}
	began := f.Now()
	answer, err := f.HTTP.Do(request) //nolint:bodyclose // readExcerpt closes it
	if err == nil {
		x.answer, x.StatusCode = answer, &answer.StatusCode
		x.excerpt, err = readExcerpt(answer.Body)
	}
	x.DurationMS = new(f.Now().Sub(began).Milliseconds())
	if err != nil {
		x.Error = new(f.reason(err))
	}
}

// The bytes of an answer that are shown, and that are read so that the connection can be used again.
const maxExcerpt, maxAnswer = 64 << 10, 4 << 20

func readExcerpt(body io.ReadCloser) ([]byte, error) {
	defer func() { _ = body.Close() }()
	excerpt, err := io.ReadAll(io.LimitReader(body, maxExcerpt))
	if err == nil {
		_, err = io.CopyN(io.Discard, body, maxAnswer)
	}
	if err == nil || errors.Is(err, io.EOF) {
		return excerpt, nil
	}
	return excerpt, err
}

// reason says why the program did not answer.
func (f *forwarder) reason(err error) string {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "no program listens at " + f.Forward.Host
	case errors.Is(err, context.DeadlineExceeded) || os.IsTimeout(err):
		return fmt.Sprintf("no answer within %s", f.HTTP.Timeout)
	}
	if failed, ok := errors.AsType[*url.Error](err); ok {
		err = failed.Err
	}
	return err.Error()
}

// compose returns the request of an event to the program. Without a program, its URL has the path
// suffix and the query only.
func (f *forwarder) compose(ctx context.Context, e client.EventDetail, body []byte) (*http.Request, error) {
	target, err := f.target(e)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, methodOf(e), target.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	f.copyHeaders(request.Header, e.Headers)
	for name, values := range f.Header {
		request.Header[name] = values
	}
	if host := request.Header.Get("Host"); host != "" {
		request.Host = host
	}
	request.Header.Del("Host")
	if _, hasAgent := request.Header["User-Agent"]; !hasAgent {
		request.Header.Set("User-Agent", "") // otherwise net/http adds its own
	}
	return request, nil
}

func methodOf(e client.EventDetail) string {
	if e.Method == nil {
		return http.MethodPost
	}
	return *e.Method
}

var errDotSegments = errors.New("its path suffix contains . or .. segments, which could leave the path of --forward")

// target returns the URL of the program for an event.
func (f *forwarder) target(e client.EventDetail) (*url.URL, error) {
	to := &url.URL{}
	if f.Forward != nil {
		to = new(*f.Forward)
	}
	path, err := url.PathUnescape(e.PathSuffix)
	if err != nil {
		return nil, fmt.Errorf("its path suffix: %w", err)
	}
	if isDots := func(s string) bool { return s == "." || s == ".." }; slices.ContainsFunc(strings.FieldsFunc(path, isSlash), isDots) {
		return nil, errDotSegments
	}
	if e.PathSuffix != "" {
		escaped := strings.TrimSuffix(to.EscapedPath(), "/") + e.PathSuffix
		to.Path, to.RawPath = strings.TrimSuffix(to.Path, "/")+path, escaped
	}
	if to.RawQuery != "" && e.Query != "" {
		to.RawQuery += "&"
	}
	to.RawQuery += e.Query
	return to, nil
}

func isSlash(r rune) bool { return r == '/' || r == '\\' }

// copyHeaders copies the stored headers of an event, except those of the connection. It leaves
// out redacted credentials, and says so once for each header.
func (f *forwarder) copyHeaders(to http.Header, from map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(from)) {
		value := from[name]
		canonical := http.CanonicalHeaderKey(name)
		switch {
		case eventhook.IsHopByHop(canonical) || canonical == "Content-Length" || canonical == "Host":
		case strings.Contains(value, eventhook.Redacted):
			if _, given := f.Header[canonical]; !given && !f.lacking[canonical] {
				f.lacking[canonical] = true
				f.note("The gateway does not store the credentials of %s: to send them, give --header '%s: …'.", canonical, canonical)
			}
		case eventhook.IsHeaderName(name):
			to.Set(name, value)
		}
	}
	if host := from["Host"]; host != "" && to.Get("X-Forwarded-Host") == "" {
		to.Set("X-Forwarded-Host", host)
	}
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
