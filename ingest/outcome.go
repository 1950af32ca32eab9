package ingest

import (
	"encoding/json"
	"maps"
	"net/http"
	"strconv"
	"time"

	"github.com/eventhook/eventhook/internal/usage"
)

// Outcome is how a request was answered, as the metric calls it.
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
	OutcomeTooSlow      Outcome = "body_too_slow"
	OutcomeEncoding     Outcome = "content_encoding_refused"

	OutcomeQuotaExceeded   Outcome = "quota_exceeded"
	OutcomeKeysUnavailable Outcome = "keys_unavailable"

	OutcomeHandshakeMalformed Outcome = "handshake_malformed"
	OutcomeHandshakeRefused   Outcome = "handshake_refused"
)

// refusals has the answer to each refused request: what a sender may know.
var refusals = map[Outcome]refusal{
	OutcomeUnreadable:   newRefusal(http.StatusBadRequest, "The request body could not be read."),
	OutcomeKeyMissing:   newRefusal(http.StatusBadRequest, "This source requires an idempotency key, and the request has none."),
	OutcomeUnverified:   newRefusal(http.StatusUnauthorized, "The request could not be verified."),
	OutcomeNotAllowed:   newRefusal(http.StatusForbidden, "Requests from this address are not allowed."),
	OutcomeNotFound:     newRefusal(http.StatusNotFound, "There is no such source."),
	OutcomeMethod:       newRefusal(http.StatusMethodNotAllowed, "This source does not take this method."),
	OutcomeTooLarge:     newRefusal(http.StatusRequestEntityTooLarge, "The body is larger than this source allows."),
	OutcomeContentType:  newRefusal(http.StatusUnsupportedMediaType, "This source does not take this content type."),
	OutcomeRateLimited:  newRefusal(http.StatusTooManyRequests, "Too many requests; send it again later."),
	OutcomeForgeryLimit: newRefusal(http.StatusTooManyRequests, "Too many requests that could not be verified."),
	OutcomeFailed:       newRefusal(http.StatusInternalServerError, "The webhook could not be stored; send it again."),
	OutcomeShed:         newRefusal(http.StatusServiceUnavailable, "Too much load; send it again later."),

	OutcomeQuotaExceeded:   newRefusal(http.StatusTooManyRequests, overQuota),
	OutcomeKeysUnavailable: newRefusal(http.StatusServiceUnavailable, "The keys that verify this request cannot be fetched now; send it again later."),
	OutcomeEvicted:         newRefusal(http.StatusServiceUnavailable, "The body came slowly, and there was too much load; send it again later."),
	OutcomeTooSlow:         newRefusal(http.StatusBadRequest, "The request body came too slowly."),
	OutcomeEncoding:        newRefusal(http.StatusUnsupportedMediaType, "The content encoding is not supported; send gzip, deflate or none."),

	OutcomeHandshakeMalformed: newRefusal(http.StatusBadRequest, "This is no handshake that this source could answer."),
	OutcomeHandshakeRefused:   newRefusal(http.StatusForbidden, "This source does not answer this handshake."),
}

// isCounted tells what a source's people should hear of: refusals for what the
// request was, not for what we could not do.
func (o Outcome) isCounted() bool {
	switch o {
	case OutcomeAccepted, OutcomeDuplicate, OutcomeHandshake, OutcomeNotFound, OutcomeFailed, OutcomeShed, OutcomeEvicted:
		return false
	default:
		return true
	}
}

// isListed tells which of them are worth a look one by one: not the rest of a
// flood.
func (o Outcome) isListed() bool { return o.isCounted() && o != OutcomeForgeryLimit }

// Outcomes are all outcomes, for who counts them.
func Outcomes() []Outcome {
	all := []Outcome{OutcomeAccepted, OutcomeDuplicate, OutcomeHandshake}
	for o := range refusals {
		all = append(all, o)
	}
	return all
}

type refusal struct {
	status int
	body   []byte
}

func newRefusal(status int, detail string) refusal {
	return refusal{status: status, body: problem(status, detail, nil)}
}

const overQuota = "The tenant's quota has no room for this webhook; send it again when it is reset."

// quotaRefusal tells more than which kind of refusal it is: the quota, and when
// to come again.
func quotaRefusal(over *usage.Excess) refusal {
	const status = http.StatusTooManyRequests
	return refusal{status: status, body: problem(status, overQuota, map[string]any{"quota": over.Quota, "resets_at": over.ResetsAt})}
}

func problem(status int, detail string, more map[string]any) []byte {
	members := map[string]any{"title": http.StatusText(status), "status": status, "detail": detail}
	maps.Copy(members, more)
	body, err := json.Marshal(members)
	if err != nil {
		panic(err) // strings, numbers and moments
	}
	return body
}

// refuse answers a request that is not accepted.
func refuse(w http.ResponseWriter, no *refused) {
	r := refusals[no.outcome]
	if no.over != nil {
		r = quotaRefusal(no.over)
	}
	h := w.Header()
	if no.closes {
		h.Set("Connection", "close")
	}
	if no.allow != "" {
		h.Set("Allow", no.allow)
	}
	if no.retryAfter > 0 {
		seconds := int((no.retryAfter + time.Second - 1) / time.Second)
		h.Set("Retry-After", strconv.Itoa(seconds))
	}
	if no.silent {
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
