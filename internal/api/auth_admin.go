package api

import (
	"crypto/sha256"
	"crypto/subtle"
	"strconv"

	"github.com/eventhook/eventhook"
)

// adminHash is the hash of an admin key. name is the key's name in the audit log; the
// first key is "admin key", so that the log shows which key is still in use during a
// rotation.
type adminHash struct {
	hash       keyHash
	name       string
	isReadOnly bool
}

// errReadOnly refuses an operation that changes something.
var errReadOnly = &eventhook.Error{Kind: eventhook.KindForbidden,
	Message: "The admin read key can read everything and change nothing. This operation requires the admin key."}

// adminHashes returns the hashes of all admin keys. Empty keys are left out: an empty
// token must not have permissions.
func adminHashes(d Deps) []adminHash {
	var all []adminHash
	add := func(name string, isReadOnly bool, keys []eventhook.Secret) {
		for i, key := range keys {
			if key.IsZero() {
				continue
			}
			a := adminHash{sha256.Sum256([]byte(key.Reveal())), name, isReadOnly}
			if i > 0 {
				a.name += " " + strconv.Itoa(i+1)
			}
			all = append(all, a)
		}
	}
	add("admin key", false, d.AdminKeys)
	add("admin read key", true, d.AdminReadKeys)
	return all
}

// adminOf returns the admin key with a hash, or nil. It compares all keys in constant
// time, so that the duration does not depend on which key matches.
func (k *keyring) adminOf(hash keyHash) *adminHash {
	var found *adminHash
	for i := range k.admin {
		if subtle.ConstantTimeCompare(hash[:], k.admin[i].hash[:]) == 1 {
			found = &k.admin[i]
		}
	}
	return found
}
