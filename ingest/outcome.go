package ingest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/usage"
)

// Outcome says how a request was answered. It is the value of a metric label.
type Outcome string

// The outcomes of requests.
const (
	OutcomeAccepted     Outcome = "accepted"
	OutcomeDuplicate    Outcome = "duplicate"
	OutcomeHandshake    Outcome = "handshake"
	OutcomeUnreadable   Outcome = "unreadable"
	OutcomeKeyMissing   Outcome = "key_missing"
	OutcomeUnverified   Outcome = "unverified"
	OutcomeNotAllowed   Outcome = "address_not_allowed"
	OutcomeNotFound     Outcome = "not_found"
	OutcomeMethod       Outcome = "method_not_allowed"
	OutcomeTooLarge     Outcome = "too_large"
	OutcomeContentType  Outcome = "content_type_refused"
	OutcomeRateLimited  Outcome = "rate_limited"
	OutcomeForgeryLimit Outcome = "forgery_limited"
	OutcomeFailed       Outcome = "failed"
	OutcomeShed         Outcome = "shed"
	OutcomeEvicted      Outcome = "evicted"
	OutcomeNotReady     Outcome = "not_ready"
	OutcomeTooSlow      Outcome = "body_too_slow"
	OutcomeEncoding     Outcome = "content_encoding_refused"

	OutcomeQuotaExceeded   Outcome = "quota_exceeded"
	OutcomeKeysUnavailable Outcome = "keys_unavailable"

	OutcomeLoop Outcome = "loop"

	OutcomeHandshakeMalformed Outcome = "handshake_malformed"
	OutcomeHandshakeRefused   Outcome = "handshake_refused"
)

// problemResponses has the response for each outcome that refuses a request. It contains
// no information that is not meant for senders.
var problemResponses = map[Outcome]problemResponse{
	OutcomeUnreadable:   newProblemResponse(http.StatusBadRequest, "The request body could not be read."),
	OutcomeKeyMissing:   newProblemResponse(http.StatusBadRequest, "This source requires an idempotency key, and the request has none."),
	OutcomeUnverified:   newProblemResponse(http.StatusUnauthorized, "The request could not be verified."),
	OutcomeNotAllowed:   newProblemResponse(http.StatusForbidden, "Requests from this address are not allowed."),
	OutcomeNotFound:     newProblemResponse(http.StatusNotFound, "The source does not exist."),
	OutcomeMethod:       newProblemResponse(http.StatusMethodNotAllowed, "This source does not accept this method."),
	OutcomeTooLarge:     newProblemResponse(http.StatusRequestEntityTooLarge, "The body is larger than this source allows."),
	OutcomeContentType:  newProblemResponse(http.StatusUnsupportedMediaType, "This source does not accept this content type."),
	OutcomeRateLimited:  newProblemResponse(http.StatusTooManyRequests, "Too many requests; send it again later."),
	OutcomeForgeryLimit: newProblemResponse(http.StatusTooManyRequests, "Too many requests that could not be verified."),
	OutcomeFailed:       newProblemResponse(http.StatusInternalServerError, "The webhook could not be stored; send it again."),
	OutcomeShed:         newProblemResponse(http.StatusServiceUnavailable, "The gateway is overloaded; send it again later."),

	OutcomeQuotaExceeded:   newProblemResponse(http.StatusTooManyRequests, quotaDetail),
	OutcomeKeysUnavailable: newProblemResponse(http.StatusServiceUnavailable, "The keys that verify this request cannot be fetched now; send it again later."),
	OutcomeEvicted:         newProblemResponse(http.StatusServiceUnavailable, "The body arrived slowly while the gateway was overloaded; send it again later."),
	OutcomeNotReady:        newProblemResponse(http.StatusServiceUnavailable, "This instance of the gateway is not ready; send it again."),
	OutcomeTooSlow:         newProblemResponse(http.StatusBadRequest, "The request body arrived too slowly."),
	OutcomeEncoding:        newProblemResponse(http.StatusUnsupportedMediaType, "The content encoding is not supported; send gzip, deflate or none."),

	OutcomeLoop: newProblemResponse(http.StatusLoopDetected,
		fmt.Sprintf("The request went through more than %d gateways: their routes and subscriptions form a loop.", eventhook.MaxHops)),

	OutcomeHandshakeMalformed: newProblemResponse(http.StatusBadRequest, "This is not a handshake that this source can answer."),
	OutcomeHandshakeRefused:   newProblemResponse(http.StatusForbidden, "This source does not answer this handshake."),
}

// isCounted reports whether users of the tenant see the number of such requests: refusals
// because of the request itself, not because of a failure or overload of the gateway.
func (o Outcome) isCounted() bool {
	switch o {
	case OutcomeAccepted, OutcomeDuplicate, OutcomeHandshake, OutcomeNotFound, OutcomeFailed, OutcomeShed, OutcomeEvicted, OutcomeNotReady:
		return false
	default:
		return true
	}
}

// isListed reports whether users of the tenant see such requests one by one. The requests of
// a flood beyond its client's budget are only counted.
func (o Outcome) isListed() bool { return o.isCounted() && o != OutcomeForgeryLimit }

// Outcomes returns all outcomes, for metrics.
func Outcomes() []Outcome {
	all := []Outcome{OutcomeAccepted, OutcomeDuplicate, OutcomeHandshake}
	for o := range problemResponses {
		all = append(all, o)
	}
	return all
}

type problemResponse struct {
	status int
	body   []byte
}

func newProblemResponse(status int, detail string) problemResponse {
	return problemResponse{status: status, body: problem(status, detail, nil)}
}

const quotaDetail = "The webhook exceeds the tenant's quota; send it again after the quota is reset."

// quotaResponse returns the response for an exceeded quota. It names the quota and the time
// of its reset.
func quotaResponse(over *usage.Excess) problemResponse {
	const status = http.StatusTooManyRequests
	return problemResponse{status: status, body: problem(status, quotaDetail, map[string]any{"quota": over.Quota, "resets_at": over.ResetsAt})}
}

func problem(status int, detail string, more map[string]any) []byte {
	members := map[string]any{"title": http.StatusText(status), "status": status, "detail": detail}
	maps.Copy(members, more)
	body, err := json.Marshal(members)
	if err != nil {
		panic(err) // strings, numbers and times always encode
	}
	return body
}

// writeRefusal writes the response to a refused request.
func writeRefusal(w http.ResponseWriter, refused *refusal) {
	r := problemResponses[refused.outcome]
	if refused.over != nil {
		r = quotaResponse(refused.over)
	}
	h := w.Header()
	if refused.closes {
		h.Set("Connection", "close")
	}
	if refused.allow != "" {
		h.Set("Allow", refused.allow)
	}
	if refused.retryAfter > 0 {
		seconds := int((refused.retryAfter + time.Second - 1) / time.Second)
		h.Set("Retry-After", strconv.Itoa(seconds))
	}
	if refused.silent {
		w.WriteHeader(r.status)
		return
	}
	h["Content-Type"] = problemType
	w.WriteHeader(r.status)
	_, _ = w.Write(r.body) // the sender may be gone
}

var (
	problemType = []string{"application/problem+json"}
	jsonType    = []string{"application/json"}
	noSniff     = []string{"nosniff"}
	sandbox     = []string{"sandbox"}
)
