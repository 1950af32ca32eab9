package consumers

import (
	"encoding/json"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/verify"
)

// AssignTo makes a source consume messages. Its verifier accepts no request: instances of an earlier
// release, which know nothing of messages, answer 401 at its URL.
func AssignTo(s *eventhook.Source, t eventhook.Target) error {
	if s.Consume == nil || s.Verifier.IsZero() {
		closed, err := verify.Closed().Sealed()
		if err != nil {
			return err
		}
		s.Verifier = closed
	}
	secrets := map[string]string{}
	_ = json.Unmarshal([]byte(t.Secrets.Reveal()), &secrets) // settings without secrets have none
	s.Consume, s.Provider, s.SecretsCount = &t, "", len(secrets)
	return nil
}

// Unused reports the settings of a source that are of no use if it consumes messages.
func Unused(s eventhook.SourceSettings, spec verify.Spec) (f eventhook.Faults) {
	for _, one := range []struct {
		name  string
		isSet bool
	}{
		{"provider", spec.Provider != ""}, {"scheme", spec.Scheme != ""}, {"secrets", len(spec.Secrets) > 0},
		{"public_keys", len(spec.PublicKeys) > 0}, {"options", len(spec.Options) > 0},
		{"tolerance_seconds", spec.ToleranceSeconds != nil}, {"verifier", spec.Verifier != nil},
		{"allowed_ip_ranges", len(s.AllowedIPRanges) > 0}, {"response", s.Response != nil},
		{"replay_protection", s.ReplayProtection != ""},
	} {
		if one.isSet {
			f.Add(one.name, "is of no use together with consume: the source receives no webhooks")
		}
	}
	return f
}
