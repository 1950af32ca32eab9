package verify

import (
	"encoding/json"
	"errors"
	"maps"

	"github.com/eventhook/eventhook"
)

// ReadSpec reads the Spec that a source keeps sealed. The error does not say
// what is there: it could quote a secret.
func ReadSpec(sealed eventhook.Secret) (Spec, error) {
	var s Spec
	if json.Unmarshal([]byte(sealed.Reveal()), &s) != nil {
		return Spec{}, errors.New("the source's verifier cannot be read")
	}
	return s, nil
}

// Sealed is the Spec as a source keeps it, secrets included.
func (s Spec) Sealed() (eventhook.Secret, error) {
	raw, err := json.Marshal(s)
	return eventhook.NewSecret(string(raw)), err
}

// Public is a copy of s without its secrets: what answers, exports and the
// audit log may show. Public keys are in it.
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

// secretOptions are the names of options that are set and never shown.
func (s Spec) secretOptions() (names []string) {
	preset, _ := FindPreset(s.Provider, s.Scheme)
	for _, o := range preset.Options {
		if _, given := s.Options[o.Name]; given && o.Secret {
			names = append(names, o.Name)
		}
	}
	return names
}

// Describe tells of a sealed Spec what may be shown, as JSON, and all of its
// secrets as one text, to be compared with another's and nothing else.
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

// AssignTo makes source one that is verified as s says, and reports what is
// wrong with s, each fault by its field.
func (s Spec) AssignTo(source *eventhook.Source) eventhook.Faults {
	_, faults := s.Resolve()
	sealed, err := s.Sealed()
	if err != nil {
		faults.Add("verifier", "cannot be stored")
	}
	source.Provider, source.Verifier, source.SecretsCount = s.Provider, sealed, s.SecretsCount()
	return faults
}
