package eventhook

import (
	"crypto/sha256"
	"encoding/base64"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// DeadGroup counts the dead deliveries of one destination that have the same cause.
type DeadGroup struct {
	Key            string // selects the group; see DeadGroupKey
	SubscriptionID SubscriptionID
	RouteID        RouteID // zero for a subscription
	TargetIndex    int
	Cause          string // see DeadCause
	StatusCode     int    // 0 without a response
	Count          int
	FirstAt        time.Time // when the first of the deliveries became dead
	LastAt         time.Time
	Samples        []DeliveryID // the newest, at most MaxDeadSamples
}

// MaxDeadSamples is the maximum number of samples of a group of dead deliveries.
const MaxDeadSamples = 5

// DeadGroups groups dead deliveries by their cause.
type DeadGroups struct {
	Groups  []DeadGroup // the largest first
	Scanned int         // number of deliveries that were counted
	// ScannedUntil is the creation time down to which deliveries were counted, newest first;
	// zero if all were counted.
	ScannedUntil time.Time
}

// DestinationName describes a destination to a reader.
type DestinationName struct {
	Name string // of the subscription or the route
	Host string // of its URL, in lower case
}

// answeredStatus matches the error of an answer that is not 2xx.
var answeredStatus = regexp.MustCompile(`\banswered (\d{3})\b`)

// deadCauses are the causes of the gateway's own errors, each with a part of their texts.
var deadCauses = []struct{ part, cause string }{
	{"not sent: it is older than ", "too old"},
	{"not sent: the event's data is past its retention", "the event's data is past its retention"},
	{"the proxy that outbound.proxy_url names refused", "refused by the outbound proxy"},
	{"the proxy that outbound.proxy_url names could not", "outbound proxy unreachable"},
	{" refused the connection", "connection refused"},
	{"no complete answer from ", "timeout"},
	{" in time", "timeout"},
	{" is not known", "unknown host name"},
	{" could not be looked up", "host name lookup failed"},
	{" does not speak TLS", "the receiver does not speak TLS"},
	{" is not trusted", "certificate not trusted"},
	{"the TLS handshake with ", "TLS handshake failed"},
	{" closed the connection without a complete answer", "connection closed"},
	{" is not public;", "address not allowed"},
}

// DeadCause returns why a delivery is dead, in a few words, and the status code of the
// receiver's answer, 0 without one. Deliveries with the same cause have the same text: it
// contains neither host, id nor number of the delivery's own.
func DeadCause(lastError string) (cause string, status int) {
	text, _, _ := strings.Cut(lastError, " (not retried: ")
	if m := answeredStatus.FindStringSubmatch(text); m != nil {
		if m[1] == "410" {
			return "410 Gone", 410 //nolint:mnd // http.StatusGone
		}
		status, _ = strconv.Atoi(m[1]) // three digits
		return m[1], status
	}
	const longest = 120 // bytes of the gateway's own errors, besides a host
	for _, c := range deadCauses {
		if strings.Contains(text, c.part) && len(text) < longest+maxHost {
			return c.cause, 0
		}
	}
	if text = generalCause(text); text == "" {
		return "unknown", 0
	}
	return text, 0
}

const maxHost = 253

// variableText matches what differs between errors with the same cause: UUIDs, long
// hexadecimal or other tokens with digits, and numbers.
var variableText = regexp.MustCompile(`(?i)[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\b[a-z0-9_-]*[0-9][a-z0-9_-]*`)

// generalCause replaces ids and numbers in an error by "…", and shortens it.
func generalCause(text string) string {
	const longest = 160
	text = strings.Join(strings.Fields(variableText.ReplaceAllString(text, "…")), " ")
	if len(text) > longest {
		text = strings.ToValidUTF8(text[:longest], "") + "…"
	}
	return text
}

// causeBytes is the length of the hash of a cause in the key of a group.
const causeBytes = 8

// DeadGroupKey returns the key of the group of a destination's dead deliveries with a cause.
func DeadGroupKey(of DestinationID, cause string) string {
	sum := sha256.Sum256([]byte(cause))
	return base64.RawURLEncoding.EncodeToString(append(of[:], sum[:causeBytes]...))
}

// ParseDeadGroupKey returns the destination of the key of a group. ok is false for a text that
// is not a key.
func ParseDeadGroupKey(key string) (of DestinationID, ok bool) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(key)
	if err != nil || len(raw) != len(of)+causeBytes {
		return of, false
	}
	copy(of[:], raw)
	return of, !of.IsZero()
}

// CheckGroup returns the faults of a selection by a group, by the names of the API's members.
func (s DeliverySelection) CheckGroup() Faults {
	var f Faults
	if _, ok := ParseDeadGroupKey(s.Group); !ok {
		f.Add("key", "is not the key of a group")
	}
	for _, c := range []struct {
		name  string
		isSet bool
	}{{"subscription_id", !s.SubscriptionID.IsZero()}, {"route_id", !s.RouteID.IsZero()}, {"event_id", !s.EventID.IsZero()}} {
		if c.isSet {
			f.Add(c.name, "must not be given with key, which selects a destination")
		}
	}
	for _, status := range s.Statuses {
		if status != DeliveryDead {
			f.Add("status", "must be dead with key: a group has dead deliveries only")
			break
		}
	}
	return f
}
