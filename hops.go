package eventhook

import (
	"bytes"
	"strings"
)

// HopsHeader counts the gateways that a webhook went through. Each delivery sends one
// more than the event had. The name is the same for every subscription.
const HopsHeader = GatewayHeaderPrefix + "Hops"

// HopsAttribute is the attribute of CloudEvents in messages to brokers with the number of
// HopsHeader.
const HopsAttribute = "eventhookhops"

// MaxHops is the number of gateways after which a request is refused: its routes and
// subscriptions form a loop.
const MaxHops = 8

// HopsOf returns the highest number among the values of HopsHeader, at most
// MaxHops+1. A value that is not a whole number counts as 0, because a sender that is
// not a gateway may use the header for something else.
func HopsOf(values []string) int {
	hops := 0
	for _, value := range values {
		for part := range strings.SplitSeq(value, ",") {
			hops = max(hops, parseHops(strings.TrimSpace(part)))
		}
	}
	return hops
}

func parseHops(digits string) int {
	const base = 10
	n := 0
	for _, c := range []byte(digits) {
		if c < '0' || c > '9' {
			return 0
		}
		n = min(n*base+int(c-'0'), MaxHops+1)
	}
	return n
}

// Hops returns the number of gateways that the event went through before this one: of
// its envelope, or of the headers with which its source received it.
func (e *Event) Hops() int {
	if e.Envelope != nil {
		return e.Envelope.Hops
	}
	hops, rest := 0, e.Headers
	for {
		_, after, found := bytes.Cut(rest, hopsLine)
		if !found {
			return hops
		}
		value, _, _ := bytes.Cut(after, lineEnd)
		hops, rest = max(hops, HopsOf([]string{string(value)})), after
	}
}

// The header follows another line, because a header block begins with Host.
var (
	lineEnd  = []byte("\r\n")
	hopsLine = []byte("\r\n" + HopsHeader + ": ")
)
