package targets

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/eventhook/eventhook"
)

// KeepSecrets gives the targets that a route shall have the secrets of those that it
// has, where [redacted] is written for one. It looks for a target of the same
// type that gives its secret to the same destination: a write-only secret is never
// sent to a new host. A secret that it does not find is a fault, such as at
// [0].auth_header. Targets that are as they were keep their secrets even when the
// key that sealed them is gone.
func KeepSecrets(want, have []eventhook.Target) ([]eventhook.Target, eventhook.Faults) {
	return kinds.keep(want, have)
}

func (all table) keep(want, have []eventhook.Target) (kept []eventhook.Target, faults eventhook.Faults) {
	if slices.EqualFunc(want, have, func(w, h eventhook.Target) bool { return sameSettings(w, h) && w.Secrets.IsZero() }) {
		return slices.Clone(have), nil
	}
	for i, t := range want {
		k, _ := all.find(t.Type)
		for _, m := range k.secretsMissing(t) {
			secret, wrong := stored(m, t, i, have)
			if wrong != "" {
				faults.Add(fmt.Sprintf("[%d].%s", i, m.name), "%s", wrong)
				continue
			}
			t.Secrets = withSecret(t.Secrets, m.name, secret)
		}
		kept = append(kept, t)
	}
	return kept, faults
}

// secretsMissing are the secrets that a target has and does not hold.
func (k kind) secretsMissing(t eventhook.Target) (list []member) {
	if k.blank == nil {
		return nil // of a type that is told as a fault
	}
	settings, secrets := object(t.Settings), object(json.RawMessage(t.Secrets.Reveal()))
	for _, m := range k.members() {
		if _, held := secrets[m.name]; m.isSecret && !held && settings[m.name] != nil {
			list = append(list, m)
		}
	}
	return list
}

// stored finds the secret that a target at index i has in store, or says what is
// wrong.
func stored(m member, t eventhook.Target, i int, have []eventhook.Target) (secret json.RawMessage, wrong string) {
	could, elsewhere := candidates(m, t, i, have)
	for n, h := range could {
		one := object(json.RawMessage(h.Secrets.Reveal()))[m.name]
		switch {
		case one == nil:
			return nil, "cannot be kept: the key that it was sealed with is gone; give it again"
		case n > 0 && !bytes.Equal(one, secret):
			return nil, "could be that of several targets: give it again"
		}
		secret = one
	}
	switch {
	case secret == nil && elsewhere:
		return nil, fmt.Sprintf("must be given again, since the %s names another destination", m.givenTo)
	case secret == nil:
		return nil, "stands for a secret that is stored, and there is none: give the secret itself"
	}
	return secret, ""
}

// candidates are the stored targets that give such a secret to the same place,
// and elsewhere says whether others give it to another. One with all else the
// same is meant before others, and of those the one at the same index.
func candidates(m member, t eventhook.Target, i int, have []eventhook.Target) (list []eventhook.Target, elsewhere bool) {
	to := object(t.Settings)[m.givenTo]
	var could []int
	for j, h := range have {
		theirs := object(h.Settings)
		switch {
		case h.Type != t.Type || theirs[m.name] == nil:
		case sameDestination(theirs[m.givenTo], to):
			could = append(could, j)
		default:
			elsewhere = true
		}
	}
	could = preferred(could, func(j int) bool { return sameSettings(have[j], t) })
	for _, j := range preferred(could, func(j int) bool { return j == i }) {
		list = append(list, have[j])
	}
	return list, elsewhere
}

// sameDestination reports whether two members that say to whom a secret is given
// say the same: of URLs the scheme, the host and the port count.
func sameDestination(a, b json.RawMessage) bool {
	var x, y string
	isText := json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil
	return bytes.Equal(a, b) || isText && eventhook.SameOrigin(x, y)
}

// preferred are those that it holds of, if there are any.
func preferred(list []int, holds func(int) bool) []int {
	if better := slices.DeleteFunc(slices.Clone(list), func(j int) bool { return !holds(j) }); len(better) > 0 {
		return better
	}
	return list
}

func sameSettings(a, b eventhook.Target) bool {
	return a.Type == b.Type && bytes.Equal(a.Settings, b.Settings)
}

func withSecret(all eventhook.Secret, name string, secret json.RawMessage) eventhook.Secret {
	members := object(json.RawMessage(all.Reveal()))
	members[name] = secret
	raw, err := encode(members)
	if err != nil {
		return all // of what was read as JSON there is none
	}
	return eventhook.NewSecret(string(raw))
}

// missing tells of a secret that is not there though the settings say it is.
func missing(m member) error {
	return fmt.Errorf("%s cannot be opened: the key that it was sealed with is gone; give it again", m.name)
}
