package ingest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/usage"
	"github.com/eventhook/eventhook/verify"
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
	OutcomeLogFull      Outcome = "log_full"
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

	OutcomeLogFull:         newProblemResponse(http.StatusServiceUnavailable, "The gateway is overloaded; send it again later."),
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
func (o Outcome) isCounted() bool { return !o.IsSuccess() && !o.IsFault() && o != OutcomeNotFound }

// isLogged reports whether such a request has a log line, and its answer a request id.
func (o Outcome) isLogged() bool { return o != OutcomeNotFound && o != OutcomeMethod }

// isListed reports whether users of the tenant see such requests one by one. The requests of
// a flood beyond its client's budget are only counted.
func (o Outcome) isListed() bool { return o.isCounted() && o != OutcomeForgeryLimit }

// IsSuccess reports whether the gateway accepted the request.
func (o Outcome) IsSuccess() bool {
	return o == OutcomeAccepted || o == OutcomeDuplicate || o == OutcomeHandshake
}

// IsFault reports whether the gateway refused a request that it should have accepted: its
// database failed, it was overloaded, its log of webhooks was full, or the instance was not ready.
func (o Outcome) IsFault() bool {
	switch o {
	case OutcomeFailed, OutcomeShed, OutcomeLogFull, OutcomeEvicted, OutcomeNotReady:
		return true
	default:
		return false
	}
}

// Outcomes returns all outcomes in a fixed order, for metrics.
func Outcomes() []Outcome {
	all := slices.Sorted(maps.Keys(problemResponses))
	return append([]Outcome{OutcomeAccepted, OutcomeDuplicate, OutcomeHandshake}, all...)
}

// The reasons of this package for which a request is not verified.
const (
	reasonOther           = "other"
	reasonHandshakeClosed = "handshake_closed"
	reasonSecretKnown     = "secret_known"
)

// Reasons returns all reasons for which a request is not verified, for metrics.
func Reasons() []string {
	reasons := []string{reasonHandshakeClosed, reasonSecretKnown, reasonOther}
	for _, r := range verify.Reasons() {
		reasons = append(reasons, string(r))
	}
	slices.Sort(reasons)
	return reasons
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
	if refused.requestID != "" {
		h[RequestIDHeader] = []string{refused.requestID}
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
	_, _ = w.Write(r.bodyFor(refused.requestID)) // the sender may be gone
}

// bodyFor returns the body of a response. Failures of the gateway name the request.
func (r problemResponse) bodyFor(requestID string) []byte {
	if r.status < http.StatusInternalServerError || requestID == "" {
		return r.body
	}
	id, err := json.Marshal(requestID)
	if err != nil {
		panic(err) // a string always encodes
	}
	member := append([]byte(`,"request_id":`), append(id, '}')...)
	return append(slices.Clip(r.body[:len(r.body)-1]), member...)
}

var (
	problemType = []string{"application/problem+json"}
	jsonType    = []string{"application/json"}
	noSniff     = []string{"nosniff"}
	sandbox     = []string{"sandbox"}
)
