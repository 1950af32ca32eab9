package verify

import (
	"crypto/hmac"
	"crypto/sha1" // #nosec G505 -- HMAC-SHA1 stands, and some providers know nothing newer
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"hash"
	"sync"

	"github.com/eventhook/eventhook"
)

// maxCandidates bounds how many signatures of one request are looked at.
const maxCandidates = 16

var strictBase64 = base64.StdEncoding.Strict()

func validateMAC(c Config, f *eventhook.Faults) {
	validateHeader(c.Header, f)
	if hashOf(c.Algorithm) == nil {
		f.Add("algorithm", "%q, want sha1, sha256 or sha512", c.Algorithm)
	}
	if c.Encoding != "" && c.Encoding != "hex" && c.Encoding != "base64" {
		f.Add("encoding", "%q, want hex or base64", c.Encoding)
	}
	validateList("secrets", c.Secrets, f)
}

// hashOf is nil for an algorithm that we do not know.
func hashOf(algorithm string) func() hash.Hash {
	switch algorithm {
	case "sha1":
		return sha1.New
	case "", "sha256":
		return sha256.New
	case "sha512":
		return sha512.New
	}
	return nil
}

// macs finds out whether one of the signatures of a request is the HMAC of
// its message under one of the live secrets. Keying an HMAC costs as much as
// hashing a short body, so keyed ones are kept for the next request.
type macs struct {
	pool                         sync.Pool // of *worktop
	tooMany, malformed, mismatch *Error
}

// worktop is the room that one verification needs.
type worktop struct {
	size     int // of a digest in bytes
	base64   bool
	keyed    []hash.Hash // one per secret
	head     []byte      // what is signed before the body
	sum      []byte
	digests  []byte // the candidates that could be decoded, one after the other
	decoded  int
	proposed int
}

func newMACs(c Config) *macs {
	newHash := hashOf(c.Algorithm)
	keys := make([][]byte, len(c.Secrets))
	for i, s := range c.Secrets {
		keys[i] = []byte(s)
	}
	m := &macs{
		tooMany:   &Error{ReasonMalformed, fmt.Sprintf("%s holds more than %d signatures", c.Header, maxCandidates)},
		malformed: &Error{ReasonMalformed, "no signature in " + c.Header + " has the expected prefix, encoding and length"},
		mismatch:  &Error{ReasonMismatch, fmt.Sprintf("no secret matched (of %d)", len(keys))},
	}
	m.pool.New = func() any {
		w := &worktop{base64: c.Encoding == "base64"}
		for _, key := range keys {
			w.keyed = append(w.keyed, hmac.New(newHash, key))
		}
		w.size = w.keyed[0].Size()
		w.sum = make([]byte, 0, w.size)
		w.digests = make([]byte, maxCandidates*w.size+2) // a base64 decoder may touch two bytes more
		return w
	}
	return m
}

// take hands out an empty worktop; it goes back with m.pool.Put.
func (m *macs) take() *worktop {
	w := m.pool.Get().(*worktop) //nolint:forcetypeassert // the pool holds nothing else
	w.decoded, w.proposed = 0, 0
	return w
}

// propose adds a candidate, and ignores what cannot be a signature: a sender
// may put others beside the one that we know. It reports whether there is
// room for more.
func (w *worktop) propose(text string) bool {
	w.proposed++
	if w.proposed > maxCandidates {
		return false
	}
	if w.decode(w.digests[w.decoded*w.size:], text) {
		w.decoded++
	}
	return true
}

// decode demands exactly one digest: a shorter one would be easier to guess.
func (w *worktop) decode(into []byte, text string) bool {
	if w.base64 {
		if len(text) != strictBase64.EncodedLen(w.size) {
			return false
		}
		n, err := strictBase64.Decode(into, []byte(text))
		return err == nil && n == w.size // fewer if it skipped a line break
	}
	if len(text) != hex.EncodedLen(w.size) {
		return false
	}
	_, err := hex.Decode(into, []byte(text))
	return err == nil
}

// check is nil if one of the candidates in w signs head and body. It compares
// each with all secrets, so the time it takes does not tell which came close.
func (m *macs) check(w *worktop, body []byte, head ...string) error {
	switch {
	case w.proposed > maxCandidates:
		return m.tooMany
	case w.decoded == 0:
		return m.malformed
	}
	w.head = w.head[:0]
	for _, h := range head {
		w.head = append(w.head, h...)
	}
	same := 0
	for _, mac := range w.keyed {
		mac.Reset()
		_, _ = mac.Write(w.head)
		_, _ = mac.Write(body)
		w.sum = mac.Sum(w.sum[:0])
		for i := range w.decoded {
			same |= subtle.ConstantTimeCompare(w.sum, w.digests[i*w.size:(i+1)*w.size])
		}
	}
	if same != 1 {
		return m.mismatch
	}
	return nil
}
