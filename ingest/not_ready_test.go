package ingest_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/ingest"
)

const notReadyDetail = "This instance of the gateway is not ready; send it again."

// The answer asks the sender to try again, and says nothing about the keys or the schema.
func TestAnInstanceThatIsNotReadyAnswers503(t *testing.T) {
	for claim, refuse := range map[string]func(*fixture){
		"the keys do not fit": func(r *fixture) { r.unfit = errDown },
		"a source cannot be read from another schema": func(r *fixture) {
			r.sources.err = fmt.Errorf("find source: %w", &eventhook.Error{Kind: eventhook.KindUnavailable, Message: eventhook.ErrNotReady.Message, RetryAfter: 10e9, Cause: errDown})
		},
		"an event cannot be stored in another schema": func(r *fixture) {
			r.store.err = fmt.Errorf("accept: %w", &eventhook.Error{Kind: eventhook.KindUnavailable, Message: eventhook.ErrNotReady.Message, RetryAfter: 10e9, Cause: errDown})
		},
	} {
		t.Run(claim, func(t *testing.T) {
			r := newFixture(t)
			refuse(r)
			w := r.wantStatus(t, webhook(`{"id":1}`), http.StatusServiceUnavailable)
			wantProblem(t, w, http.StatusServiceUnavailable, notReadyDetail)
			if got := w.Header().Get("Retry-After"); got != "10" {
				t.Errorf("Retry-After is %q, want 10", got)
			}
			wantCount(t, "not ready", r.observer.outcomes[ingest.OutcomeNotReady], 1)
			if log := r.log.String(); !strings.Contains(log, "database is down") {
				t.Errorf("the log %q does not name the cause", log)
			}
			r.unfit, r.sources.err, r.store.err = nil, nil, nil
			r.wantStatus(t, webhook(`{"id":1}`), http.StatusOK)
		})
	}
}

func TestAnInstanceThatIsNotReadyAnswersNoHandshake(t *testing.T) {
	r := newFixture(t, provider("slack"))
	r.unfit = errors.New("unfit")
	r.wantStatus(t, webhook(`{"type":"url_verification","challenge":"c"}`), http.StatusServiceUnavailable)
}

// The log of webhooks logs once that it is not available.
func TestAnInstanceWithoutItsLogLogsNoLinePerWebhook(t *testing.T) {
	r := newFixture(t)
	r.unfit = fmt.Errorf("%w: no servers", ingest.ErrLogUnavailable)
	r.wantStatus(t, webhook(`{"id":1}`), http.StatusServiceUnavailable)
	wantCount(t, "not ready", r.observer.outcomes[ingest.OutcomeNotReady], 1)
	if log := r.log.String(); log != "" {
		t.Errorf("got the log %q, want no line", log)
	}
}
