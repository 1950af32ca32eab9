package api

import (
	"time"

	"github.com/eventhook/eventhook"
)

// RecordKeyUse records a use of a key, as a request does.
func RecordKeyUse(u *KeyUses, key eventhook.KeyID, at time.Time) { u.record(key, at) }
