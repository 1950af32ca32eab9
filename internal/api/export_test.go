package api

import (
	"time"

	"github.com/eventhook/eventhook"
)

// Note remembers a use of a key, as a request does.
func Note(u *KeyUses, key eventhook.KeyID, at time.Time) { u.note(key, at) }
