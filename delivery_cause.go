package eventhook

import (
	"crypto/sha256"
	"encoding/base64"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
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
	const gone = 410
	switch status = answeredStatus(text); status {
	case 0:
	case gone:
		return "410 Gone", status
	default:
		return strconv.Itoa(status), status
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

// answeredStatus returns the status code in the error of an answer that is not 2xx, 0 if the text
// is another error.
func answeredStatus(text string) int {
	const digits, least = 3, 100
	_, rest, _ := strings.Cut(text, "answered ")
	rest, _, _ = strings.Cut(rest, " ")
	status, err := strconv.Atoi(rest)
	if err != nil || len(rest) != digits || status < least {
		return 0
	}
	return status
}

// generalCause replaces words with digits, such as ids and numbers, by "…", and shortens the text.
func generalCause(text string) string {
	const longest = 160
	isNoWord := func(r rune) bool {
		return r != '-' && r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	}
	var b strings.Builder
	for text = strings.Join(strings.Fields(text), " "); text != "" && b.Len() < longest; {
		end := strings.IndexFunc(text, isNoWord)
		if end < 0 {
			end = len(text)
		}
		word := text[:end]
		if strings.ContainsAny(word, "0123456789") {
			word = "…"
		}
		b.WriteString(word)
		_, size := utf8.DecodeRuneInString(text[end:])
		b.WriteString(text[end : end+size])
		text = text[end+size:]
	}
	if text != "" {
		return b.String() + "…"
	}
	return b.String()
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
