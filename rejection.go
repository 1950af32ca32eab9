package eventhook

import "time"

// Rejection is a request that a source refused, as its people may see it: what
// came, from where, and why it was refused. It holds nothing of the body but
// its size and hash, of the headers but their names, and nothing of the query.
// All of it is text that the sender may have chosen, cut to a bearable length.
type Rejection struct {
	ID            RejectionID // its time is when the request was refused
	SourceID      SourceID
	Outcome       string // how it was answered
	Reason        string // why, in one word: the verifier's, else the outcome
	Detail        string // the verifier's words, "" if it was not asked
	Method        string
	ClientAddress string   // "" if unknown
	HeaderNames   []string // canonical, sorted
	BodySize      int64    // as read, else as announced; UnknownBodySize
	BodySHA256    []byte   // nil if the body was not read to its end
}

// UnknownBodySize is the size of a body that was neither read nor announced.
const UnknownBodySize = -1

// RejectedAt is when the request was refused, to the millisecond.
func (r Rejection) RejectedAt() time.Time { return r.ID.Time() }

// RejectionCount says how often a source refused requests for a reason,
// those included of which no Rejection was kept.
type RejectionCount struct {
	SourceID SourceID
	Reason   string
	Count    int64
	FirstAt  time.Time
	LastAt   time.Time
}
