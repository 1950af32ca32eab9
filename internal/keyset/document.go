package keyset

import (
	"slices"
	"time"

	"github.com/eventhook/eventhook/verify"
)

// Lifetimes of documents, and the minimum intervals between fetches.
const (
	defaultAge   = time.Hour
	minAge       = 5 * time.Minute
	maxAge       = 24 * time.Hour   // also the limit for keys that cannot be fetched again
	retryAfter   = 30 * time.Second // after a failed fetch
	refetchAfter = time.Minute      // if a requested key is unknown
)

// document is the cached result of the fetches of one URL.
type document struct {
	keys      []verify.Key // empty if no fetch succeeded
	fetchedAt time.Time
	expiresAt time.Time
	triedAt   time.Time // of the last fetch, successful or not
	err       error     // of the last fetch; nil if it succeeded
}

// newDocument returns the cache entry of a document that was fetched now. age is
// its lifetime, 0 if the server did not send a lifetime.
func newDocument(keys []verify.Key, age time.Duration, now time.Time) document {
	if age == 0 {
		age = defaultAge
	}
	age = min(max(age, minAge), maxAge)
	return document{keys: keys, fetchedAt: now, expiresAt: now.Add(age), triedAt: now}
}

// needsFetch reports whether the document must be fetched before it is used for the
// key id, "" for any key.
func (d document) needsFetch(now time.Time, id string) bool {
	sinceFetch := now.Sub(d.triedAt)
	switch {
	case d.err != nil && sinceFetch < retryAfter:
		return false
	case len(d.keys) == 0 || !now.Before(d.expiresAt):
		return true
	}
	return id != "" && !d.has(id) && sinceFetch >= refetchAfter
}

func (d document) has(id string) bool {
	return slices.ContainsFunc(d.keys, func(k verify.Key) bool { return k.ID == id })
}

// usableKeys returns the keys if they are not older than maxAge, even if they have
// expired, and otherwise err. It also returns err if err is not nil and every key
// has another id than id.
func (d document) usableKeys(now time.Time, id string, err error) ([]verify.Key, error) {
	isOld := len(d.keys) == 0 || now.Sub(d.fetchedAt) >= maxAge
	if isOld || err != nil && d.lacks(id) {
		return nil, err
	}
	return d.keys, nil
}

// lacks reports whether every key has an id that differs from id.
func (d document) lacks(id string) bool {
	return id != "" && !d.has(id) && !d.has("")
}
