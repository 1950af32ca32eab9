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
func KeepSecrets(updated, stored []eventhook.Target) ([]eventhook.Target, eventhook.Faults) {
	return kinds.keep(updated, stored)
}

func (all table) keep(updated, stored []eventhook.Target) (kept []eventhook.Target, faults eventhook.Faults) {
	if slices.EqualFunc(updated, stored, func(w, h eventhook.Target) bool { return sameSettings(w, h) && w.Secrets.IsZero() }) {
		return slices.Clone(stored), nil
	}
	for i, t := range updated {
		k, _ := all.find(t.Type)
		for _, m := range k.missingSecrets(t) {
			secret, wrong := storedSecret(m, t, i, stored)
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

// missingSecrets returns the secret members that a target's settings have and its Secrets lack.
func (k kind) missingSecrets(t eventhook.Target) (list []member) {
	if k.newSettings == nil {
		return nil // an unknown type, which is a fault elsewhere
	}
	settings, secrets := object(t.Settings), object(json.RawMessage(t.Secrets.Reveal()))
	for _, m := range k.members() {
		if _, isKnown := secrets[m.name]; m.isSecret && !isKnown && settings[m.name] != nil {
			list = append(list, m)
		}
	}
	return list
}

// storedSecret returns the stored secret for member m of the target at index i, or a description of
// the fault.
func storedSecret(m member, t eventhook.Target, i int, stored []eventhook.Target) (secret json.RawMessage, wrong string) {
	matching, isElsewhere := candidates(m, t, i, stored)
	for n, h := range matching {
		found := object(json.RawMessage(h.Secrets.Reveal()))[m.name]
		switch {
		case found == nil:
			return nil, "cannot be kept: the key that sealed it is not configured; set the secret again"
		case n > 0 && !bytes.Equal(found, secret):
			return nil, "matches several stored targets with different secrets: set the secret again"
		}
		secret = found
	}
	switch {
	case secret == nil && isElsewhere:
		return nil, fmt.Sprintf("must be set again, because the %s names another destination", m.recipient)
	case secret == nil:
		return nil, "is [redacted], but no secret is stored: set the secret itself"
	}
	return secret, ""
}

// candidates returns the stored targets of the same type that send the secret to the same
// destination. If some of them have the same settings, it returns these only; if one of the
// remaining targets has the same index, it returns this one only. isElsewhere reports whether
// stored targets send the secret to another destination.
func candidates(m member, t eventhook.Target, i int, stored []eventhook.Target) (list []eventhook.Target, isElsewhere bool) {
	to := object(t.Settings)[m.recipient]
	var matching []int
	for j, h := range stored {
		settings := object(h.Settings)
		switch {
		case h.Type != t.Type || settings[m.name] == nil:
		case sameDestination(settings[m.recipient], to):
			matching = append(matching, j)
		default:
			isElsewhere = true
		}
	}
	matching = preferred(matching, func(j int) bool { return sameSettings(stored[j], t) })
	for _, j := range preferred(matching, func(j int) bool { return j == i }) {
		list = append(list, stored[j])
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

// preferred returns the elements that are better, or the whole list if there are none.
func preferred(list []int, isBetter func(int) bool) []int {
	if better := slices.DeleteFunc(slices.Clone(list), func(j int) bool { return !isBetter(j) }); len(better) > 0 {
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

// missingSecretError is the error for a secret that is configured and could not be decrypted.
func missingSecretError(m member) error {
	return fmt.Errorf("%s cannot be decrypted: the key that sealed it is not configured; set the secret again", m.name)
}
