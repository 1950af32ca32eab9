package targets

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/eventhook/eventhook"
)

// KeepSecrets replaces each secret that is written as [redacted] in the new targets of a route with
// the stored secret. The stored secret comes from a target of the same type that sends it to the
// same destination, so a write-only secret never reaches a new host. A secret that is not found is
// a fault, for example at [0].auth_header. Unchanged targets keep their secrets even if the key
// that sealed them is gone.
func KeepSecrets(want, have []eventhook.Target) ([]eventhook.Target, eventhook.Faults) {
	return kinds.keep(want, have)
}

func (all table) keep(want, have []eventhook.Target) (kept []eventhook.Target, faults eventhook.Faults) {
	if slices.EqualFunc(want, have, func(w, h eventhook.Target) bool { return sameSettings(w, h) && w.Secrets.IsZero() }) {
		return slices.Clone(have), nil
	}
	for i, t := range want {
		k, _ := all.find(t.Type)
		for _, m := range k.missingSecrets(t) {
			secret, wrong := storedSecret(m, t, i, have)
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

// secretsMissing returns the secrets that a target's settings name and its Secrets do not hold.
func (k kind) missingSecrets(t eventhook.Target) (list []member) {
	if k.newSettings == nil {
		return nil // an unknown type, which is a fault elsewhere
	}
	settings, secrets := object(t.Settings), object(json.RawMessage(t.Secrets.Reveal()))
	for _, m := range k.members() {
		if _, held := secrets[m.name]; m.isSecret && !held && settings[m.name] != nil {
			list = append(list, m)
		}
	}
	return list
}

// stored returns the stored secret for member m of the target at index i, or what is wrong.
func storedSecret(m member, t eventhook.Target, i int, have []eventhook.Target) (secret json.RawMessage, wrong string) {
	matching, isElsewhere := candidates(m, t, i, have)
	for n, h := range matching {
		one := object(json.RawMessage(h.Secrets.Reveal()))[m.name]
		switch {
		case one == nil:
			return nil, "cannot be kept: the key that sealed it is not configured; set the secret again"
		case n > 0 && !bytes.Equal(one, secret):
			return nil, "matches several stored targets with different secrets: set the secret again"
		}
		secret = one
	}
	switch {
	case secret == nil && isElsewhere:
		return nil, fmt.Sprintf("must be set again, because the %s names another destination", m.recipient)
	case secret == nil:
		return nil, "stands for a stored secret, but no secret is stored: set the secret itself"
	}
	return secret, ""
}

// candidates returns the stored targets of the same type that send the secret to the same
// destination; elsewhere reports whether other stored targets send it to another one. Targets with
// the same settings take precedence, and among them the target at the same index.
func candidates(m member, t eventhook.Target, i int, have []eventhook.Target) (list []eventhook.Target, isElsewhere bool) {
	to := object(t.Settings)[m.recipient]
	var could []int
	for j, h := range have {
		theirs := object(h.Settings)
		switch {
		case h.Type != t.Type || theirs[m.name] == nil:
		case sameDestination(theirs[m.recipient], to):
			could = append(could, j)
		default:
			isElsewhere = true
		}
	}
	could = preferred(could, func(j int) bool { return sameSettings(have[j], t) })
	for _, j := range preferred(could, func(j int) bool { return j == i }) {
		list = append(list, have[j])
	}
	return list, isElsewhere
}

// sameDestination reports whether two members name the same recipient of a secret. URLs are
// compared by scheme, host and port.
func sameDestination(a, b json.RawMessage) bool {
	var x, y string
	isText := json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil
	return bytes.Equal(a, b) || isText && eventhook.SameOrigin(x, y)
}

// preferred returns the elements for which holds returns true, or the whole list if there are none.
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
		return all // cannot happen: the members were decoded from JSON
	}
	return eventhook.NewSecret(string(raw))
}

// missing is the error for a secret that the settings name and that could not be opened.
func missingSecretError(m member) error {
	return fmt.Errorf("%s cannot be decrypted: the key that sealed it is not configured; set the secret again", m.name)
}
