package verify

import (
	"slices"
	"sync"
)

// workspaces are shared by all verifiers, so that one of many sources, which are
// asked for now and then, finds room that was just used.
var workspaces = sync.Pool{New: func() any {
	return &workspace{candidates: make([][]byte, 0, maxCandidates), from: make([]int, 0, maxCandidates)}
}}

// workspace is the room that one verification needs, used again by the next.
type workspace struct {
	digests       []byte   // the candidates that could be decoded, one after the other
	candidates    [][]byte // slices of it
	from          []int    // the header that each came from
	proposed      int
	prefixed      bool // one had the right prefix at least
	least, most   int  // bytes of a signature
	before, after []byte
	body          bool // stands between them
	sum           []byte
	whole         []byte // the message in one piece
	found         []foundField
	crc           uint32 // of the body, if hasCRC
	hasCRC        bool
}

// free gives the room back. It keeps nothing of the request alive.
func (w *workspace) free() {
	const kept = 1024
	clear(w.found)
	if w.found = w.found[:0]; cap(w.found) > kept {
		w.found = nil
	}
	workspaces.Put(w)
}

// message is what was signed, all in one.
func (w *workspace) message(r *Request) []byte {
	switch {
	case !w.body:
		return w.before
	case len(w.before)+len(w.after) == 0:
		return r.Body
	}
	return slices.Concat(w.before, r.Body, w.after)
}

// keptRoom is how large a buffer may be to be used again, in bytes, so that
// one large request does not hold on to its room.
const keptRoom = 64 << 10

// reset makes room for signatures of some bytes.
func (w *workspace) reset(least, most int) {
	w.least, w.most = least, most
	w.digests = slices.Grow(w.digests[:0], maxCandidates*(most+2)) // a base64 decoder may touch two bytes more
	w.candidates, w.from = w.candidates[:0], w.from[:0]
	w.proposed, w.prefixed = 0, false
	if cap(w.before)+cap(w.after) > keptRoom {
		w.before, w.after = nil, nil
	}
}

// propose adds a candidate, and ignores what cannot be a signature: a sender
// may put others beside the one that we know. It reports whether there is
// room for more.
func (w *workspace) propose(text string, prefixed bool, in encoding, from int) bool {
	w.proposed++
	if w.proposed > maxCandidates {
		return false
	}
	if !prefixed {
		return true
	}
	w.prefixed = true
	at := len(w.digests)
	if n := w.decode(w.digests[at:cap(w.digests)], text, in); n > 0 {
		w.digests = w.digests[:at+n]
		w.candidates = append(w.candidates, w.digests[at:at+n:at+n])
		w.from = append(w.from, from)
	}
	return true
}

// decode demands a whole signature: a shorter one would be easier to guess.
// It returns 0 if there is none.
func (w *workspace) decode(into []byte, text string, in encoding) int {
	n := in.decode(into, text, w.most)
	if n < w.least {
		return 0
	}
	return n
}
