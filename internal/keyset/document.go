package keyset

import (
	"slices"
	"time"

	"github.com/eventhook/eventhook/verify"
)

// How long a document is believed, and how long it is left alone.
const (
	defaultAge = time.Hour
	minAge     = 5 * time.Minute
	maxAge     = 24 * time.Hour // of keys that cannot be fetched anew, too
	retryAfter = 30 * time.Second
	seekAfter  = time.Minute // when a key is unknown
)

// document is what the last fetches of one URL brought.
type document struct {
	keys      []verify.Key // none if it was never had
	fetchedAt time.Time
	expiresAt time.Time
	triedAt   time.Time // the last time, with or without success
	err       error     // of that; nil if it succeeded
}

// newDocument makes a document that was fetched now. age is 0 if its server did not
// send one.
func newDocument(keys []verify.Key, age time.Duration, now time.Time) document {
	if age == 0 {
		age = defaultAge
	}
	age = min(max(age, minAge), maxAge)
	return document{keys: keys, fetchedAt: now, expiresAt: now.Add(age), triedAt: now}
}

// due reports whether the document is to be fetched before it is used for the
// key id, "" for any.
func (d document) due(now time.Time, id string) bool {
	rested := now.Sub(d.triedAt)
	switch {
	case d.err != nil && rested < retryAfter:
		return false
	case len(d.keys) == 0 || !now.Before(d.expiresAt):
		return true
	}
	return id != "" && !d.has(id) && rested >= seekAfter
}

func (d document) has(id string) bool {
	return slices.ContainsFunc(d.keys, func(k verify.Key) bool { return k.ID == id })
}

// answer returns the keys if they may still be used, old as they may be, and
// otherwise err. If err is not nil, keys of which none can be the one that is
// wanted are no answer.
func (d document) answer(now time.Time, id string, err error) ([]verify.Key, error) {
	isOld := len(d.keys) == 0 || now.Sub(d.fetchedAt) >= maxAge
	if isOld || err != nil && d.lacks(id) {
		return nil, err
	}
	return d.keys, nil
}

// lacks reports whether each key has an id, and another one.
func (d document) lacks(id string) bool {
	return id != "" && !d.has(id) && !d.has("")
}
