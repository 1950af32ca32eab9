package ingest

import (
	"encoding/json"
	"errors"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/verify"
)

// resolve resolves the verifier of a source, including secrets learned by a handshake that
// are in effect.
func resolve(s eventhook.Source) (verify.Resolved, error) {
	var spec verify.Spec
	if err := json.Unmarshal([]byte(s.Verifier.Reveal()), &spec); err != nil {
		return verify.Resolved{}, errors.New("the verifier cannot be read") // the cause may quote a secret
	}
	resolved, faults := spec.Resolve(learnedSecrets(s, spec)...)
	return resolved, faults.Err("the verifier is invalid")
}

// learnedSecrets returns the secrets learned by handshakes that are in effect. Any sender
// can send such a handshake. Where the provider requires that a user confirms the secret, it
// takes effect when it has been shown to a user.
func learnedSecrets(s eventhook.Source, spec verify.Spec) []string {
	if p, _ := verify.FindPreset(spec.Provider, spec.Scheme); p.ConfirmsSecret && !s.SecretRevealed {
		return nil
	}
	texts := make([]string, len(s.LearnedSecrets))
	for i, l := range s.LearnedSecrets {
		texts[i] = l.Reveal()
	}
	return texts
}

// isUnconfirmed reports whether a source has learned a secret that is not in effect yet.
func isUnconfirmed(s eventhook.Source, r verify.Resolved) bool {
	return r.Waiting && len(s.LearnedSecrets) > 0
}

// newVerifier returns the verifier of a source. While its secret is not confirmed, the
// verifier refuses every request.
func newVerifier(s eventhook.Source, r verify.Resolved, keys verify.Keys) (verify.Verifier, error) {
	if isUnconfirmed(s, r) {
		return verify.Unconfirmed{}, nil
	}
	return r.New(keys)
}
