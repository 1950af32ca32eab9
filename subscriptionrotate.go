package eventhook

import "time"

// DefaultRotationGrace is how long the former secret still signs after another
// has taken its place.
const DefaultRotationGrace = 24 * time.Hour

// RotateSigningSecret puts a secret in the place of the current one, which still signs until
// the grace is over. If a rotation is under way already, its oldest secret ends.
// The current secret put in its own place changes nothing, and a former secret
// becomes the current one again.
func RotateSigningSecret(have []SigningSecret, next Secret, now time.Time, grace time.Duration) []SigningSecret {
	if len(have) > 0 && have[0].Secret.Equal(next) {
		return have
	}
	list := []SigningSecret{{Secret: next}}
	for _, s := range have {
		if s.ExpiresAt == nil {
			s.ExpiresAt = new(now.Add(grace))
		}
		if len(list) < MaxSigningSecrets && s.ExpiresAt.After(now) && !s.Secret.Equal(next) {
			list = append(list, s)
		}
	}
	return list
}

// WithGeneratedSecrets fills in the secrets that are not given and can be made: the signing
// secret, and the key of SignatureEd25519 if that is asked for.
func (s Subscription) WithGeneratedSecrets() Subscription {
	if len(s.Signing) == 0 {
		s.Signing = []SigningSecret{{Secret: NewSigningSecret()}}
	}
	if s.Ed25519Seed.IsZero() && s.IsSignedWith(SignatureEd25519) {
		s.Ed25519Seed = NewEd25519Seed()
	}
	return s
}

// IsSignedWith reports whether its deliveries have such a signature.
func (s SubscriptionSettings) IsSignedWith(signature string) bool {
	if len(s.Signatures) == 0 {
		return signature == SignatureHMAC
	}
	for _, one := range s.Signatures {
		if one == signature {
			return true
		}
	}
	return false
}
