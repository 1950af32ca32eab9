package verify

import (
	"slices"
	"sync"
)

// workspacePool is shared by all verifiers, so that verifications for many rarely
// used sources reuse the same memory.
var workspacePool = sync.Pool{New: func() any {
	return &workspace{candidates: make([][]byte, 0, maxCandidates), headerIndexes: make([]int, 0, maxCandidates)}
}}

// workspace holds the buffers of one verification. It is reused.
type workspace struct {
	digests       []byte   // the decoded candidates, one after the other
	candidates    [][]byte // the signatures to check: slices of digests
	headerIndexes []int    // for each candidate, the index of its header
	proposed      int      // calls of propose
	prefixed      bool     // a proposed signature had the right prefix
	minSize       int      // of a signature in bytes
	maxSize       int
	before, after []byte // the signed text before and after the body
	hasBody       bool   // the signed text contains the body
	sum           []byte
	whole         []byte // the signed text including the body
	found         []foundField
	crc           uint32 // of the body; valid if hasCRC
	hasCRC        bool
}

// release returns w to the pool. It drops all references to the request.
func (w *workspace) release() {
	const maxReusedFields = 1024
	clear(w.found)
	if w.found = w.found[:0]; cap(w.found) > maxReusedFields {
		w.found = nil
	}
	workspacePool.Put(w)
}

// message returns the signed text in one slice.
func (w *workspace) message(r *Request) []byte {
	switch {
	case !w.hasBody:
		return w.before
	case len(w.before)+len(w.after) == 0:
		return r.Body
	}
	return slices.Concat(w.before, r.Body, w.after)
}

// maxReusedBytes is the largest buffer that is reused, so that a large request
// does not keep its memory allocated.
const maxReusedBytes = 64 << 10

// reset prepares w for signatures of minSize to maxSize bytes.
func (w *workspace) reset(minSize, maxSize int) {
	w.minSize, w.maxSize = minSize, maxSize
	w.digests = slices.Grow(w.digests[:0], maxCandidates*(maxSize+2)) // a base64 decoder can write two bytes more
	w.candidates, w.headerIndexes = w.candidates[:0], w.headerIndexes[:0]
	w.proposed, w.prefixed = 0, false
	if cap(w.before)+cap(w.after) > maxReusedBytes {
		w.before, w.after = nil, nil
	}
}

// propose adds a candidate from the header with the index. Text without the
// prefix, or that is not a signature, is ignored: a sender can list signatures of
// other schemes beside the expected one. propose returns false if there are more
// than maxCandidates.
func (w *workspace) propose(text string, prefixed bool, in encoding, headerIndex int) bool {
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
		w.headerIndexes = append(w.headerIndexes, headerIndex)
	}
	return true
}

// decode decodes text and returns the number of bytes. It returns 0 if text is
// not a signature of minSize to maxSize bytes: a truncated signature would be
// easier to guess.
func (w *workspace) decode(into []byte, text string, in encoding) int {
	n := in.decode(into, text, w.maxSize)
	if n < w.minSize {
		return 0
	}
	return n
}
