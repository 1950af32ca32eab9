package ingest

import (
	"encoding/json"
	"errors"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/verify"
)

// resolve reads a source's verifier, with the secret that its handshake has
// brought if that counts.
func resolve(s eventhook.Source) (verify.Resolved, error) {
	var spec verify.Spec
	if err := json.Unmarshal([]byte(s.Verifier.Reveal()), &spec); err != nil {
		return verify.Resolved{}, errors.New("its verifier cannot be read") // the cause may quote a secret
	}
	resolved, faults := spec.Resolve(learned(s, spec)...)
	return resolved, faults.Err("the verifier is invalid")
}

// learned are the secrets that a handshake has brought and that count. They come
// from anybody: where a person must confirm them, they count once they were
// shown to one.
func learned(s eventhook.Source, spec verify.Spec) []string {
	if p, _ := verify.FindPreset(spec.Provider, spec.Scheme); p.ConfirmsSecret && !s.SecretRevealed {
		return nil
	}
	texts := make([]string, len(s.LearnedSecrets))
	for i, l := range s.LearnedSecrets {
		texts[i] = l.Reveal()
	}
	return texts
}

// isUnconfirmed reports whether a source has learned a secret that does not
// count yet.
func isUnconfirmed(s eventhook.Source, r verify.Resolved) bool {
	return r.Waiting && len(s.LearnedSecrets) > 0
}

func verifierOf(s eventhook.Source, r verify.Resolved, keys verify.Keys) (verify.Verifier, error) {
	if isUnconfirmed(s, r) {
		return verify.Unconfirmed{}, nil
	}
	return r.New(keys)
}
