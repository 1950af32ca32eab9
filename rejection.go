package eventhook

import "time"

// Rejection describes a request that a source refused, for the engineers of the
// tenant: its origin and the reason. It contains the size and hash of the body but
// no part of it, the names of the headers but no values, and no part of the query. A
// sender may have chosen any of the texts; each is cut to a bounded length.
type Rejection struct {
	ID            RejectionID // contains the time of the refusal
	SourceID      SourceID
	Outcome       string // the outcome of the request
	Reason        string // one word: the verifier's reason if it ran, otherwise the outcome
	Detail        string // explanation by the verifier, "" if it did not run
	Method        string
	ClientAddress string   // "" if unknown
	HeaderNames   []string // canonical, sorted
	BodySize      int64    // bytes read, otherwise Content-Length, otherwise UnknownBodySize
	BodySHA256    []byte   // nil if the body was not read completely
}

// UnknownBodySize is the BodySize of a request whose body was not read and that had
// no Content-Length.
const UnknownBodySize = -1

// RejectedAt returns the time of the refusal, to the millisecond.
func (r Rejection) RejectedAt() time.Time { return r.ID.Time() }

// RejectionCount counts the requests that a source refused for one reason, including
// requests of which no Rejection is stored.
type RejectionCount struct {
	SourceID SourceID
	Reason   string
	Count    int64
	FirstAt  time.Time
	LastAt   time.Time
}
