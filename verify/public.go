package verify

import (
	"encoding/json"
	"errors"
	"maps"

	"github.com/eventhook/eventhook"
)

// ReadSpec decodes the sealed Spec of a source. The error contains nothing of the
// sealed text, which can contain secrets.
func ReadSpec(sealed eventhook.Secret) (Spec, error) {
	var s Spec
	if json.Unmarshal([]byte(sealed.Reveal()), &s) != nil {
		return Spec{}, errors.New("the source's verifier cannot be read")
	}
	return s, nil
}

// Sealed encodes s, including its secrets, as a source stores it.
func (s Spec) Sealed() (eventhook.Secret, error) {
	raw, err := json.Marshal(s)
	return eventhook.NewSecret(string(raw)), err
}

// Public returns a copy of s without secrets, for responses, exports and the
// audit log. The copy contains the public keys.
func (s Spec) Public() Spec {
	s.Secrets = nil
	s.Options = maps.Clone(s.Options)
	for _, name := range s.secretOptions() {
		delete(s.Options, name)
	}
	if s.Verifier != nil {
		c := *s.Verifier
		c.Secrets, c.Values, c.Password = nil, nil, ""
		s.Verifier = &c
	}
	return s
}

// secretOptions returns the names of the options that are set and secret.
func (s Spec) secretOptions() (names []string) {
	preset, _ := FindPreset(s.Provider, s.Scheme)
	for _, o := range preset.Options {
		if _, given := s.Options[o.Name]; given && o.Secret {
			names = append(names, o.Name)
		}
	}
	return names
}

// Describe splits a sealed Spec into its public part, as JSON, and a text with all
// of its secrets. The text is only for comparison with another Spec's.
func Describe(sealed eventhook.Secret) (public json.RawMessage, secrets string, err error) {
	s, err := ReadSpec(sealed)
	if err != nil {
		return nil, "", err
	}
	if public, err = json.Marshal(s.Public()); err != nil {
		return nil, "", err
	}
	all := [][]string{s.Secrets, nil, nil, nil, nil}
	for _, name := range s.secretOptions() {
		all[1] = append(all[1], name, s.Options[name])
	}
	if s.Verifier != nil {
		all[2], all[3], all[4] = s.Verifier.Secrets, s.Verifier.Values, []string{s.Verifier.Password}
	}
	raw, err := json.Marshal(all)
	return public, string(raw), err
}

// AssignTo sets the provider and verifier of source to s. It returns the faults of
// s, each at the key of its field.
func (s Spec) AssignTo(source *eventhook.Source) eventhook.Faults {
	_, faults := s.Resolve()
	sealed, err := s.Sealed()
	if err != nil {
		faults.Add("verifier", "cannot be stored")
	}
	source.Provider, source.Verifier, source.SecretsCount = s.Provider, sealed, s.SecretsCount()
	return faults
}
