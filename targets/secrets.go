package targets

import (
	"bytes"
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
	return kinds.KeepSecrets(updated, stored)
}

// KeepSecrets keeps secrets of targets whose types the table has; see the function KeepSecrets.
func (all Table[S]) KeepSecrets(updated, stored []eventhook.Target) (kept []eventhook.Target, faults eventhook.Faults) {
	if slices.EqualFunc(updated, stored, func(w, h eventhook.Target) bool { return sameSettings(w, h) && w.Secrets.IsZero() }) {
		return slices.Clone(stored), nil
	}
	for i, t := range updated {
		k, settings, err := all.open(t)
		if err != nil {
			kept = append(kept, t) // a fault elsewhere
			continue
		}
		isValid := len(settings.Check()) == 0
		for _, x := range k.secrets() {
			if x.text(settings) != eventhook.Redacted {
				continue
			}
			text, wrong := all.storedSecret(x, written{t, settings, i}, stored)
			if wrong != "" {
				faults.Add(fmt.Sprintf("[%d].%s", i, x.name), "%s", wrong)
				continue
			}
			t.Secrets = withSecret(t, x.name, text)
			x.set(settings, text)
		}
		if isValid { // until a kept private key met its certificate
			faults.Merge(fmt.Sprintf("[%d]", i), settings.Check())
		}
		kept = append(kept, t)
	}
	return kept, faults
}

// written is a new target with its open settings, at an index.
type written struct {
	eventhook.Target
	settings Checked
	index    int
}

// storedSecret returns the stored secret x for a new target, or a description of the fault.
func (all Table[S]) storedSecret(x secret, of written, stored []eventhook.Target) (text, wrong string) {
	matching, isElsewhere := all.candidates(x, of, stored)
	for n, h := range matching {
		found, isKnown := sealedTexts(h)[x.name]
		switch {
		case !isKnown:
			return "", "cannot be kept: the key that sealed it is not configured; set the secret again"
		case n > 0 && found != text:
			return "", "matches several stored targets with different secrets: set the secret again"
		}
		text = found
	}
	switch {
	case text == "" && isElsewhere:
		return "", fmt.Sprintf("must be set again, because a change of the %s sends it to another destination", x.recipients())
	case text == "":
		return "", "is [redacted], but no secret is stored: set the secret itself"
	}
	return text, ""
}

// candidates returns the stored targets of the same type that send the secret to the same
// destination. If some of them have the same settings, it returns these only; if one of the
// remaining targets has the same index, it returns this one only. isElsewhere reports whether
// stored targets send the secret to another destination.
func (all Table[S]) candidates(x secret, of written, stored []eventhook.Target) (list []eventhook.Target, isElsewhere bool) {
	var matching []int
	for j, h := range stored {
		if h.Type != of.Type {
			continue
		}
		_, settings, err := all.open(h)
		switch {
		case err != nil || x.text(settings) == "":
		case x.keepsRecipient(settings, of.settings):
			matching = append(matching, j)
		default:
			isElsewhere = true
		}
	}
	matching = preferred(matching, func(j int) bool { return sameSettings(stored[j], of.Target) })
	for _, j := range preferred(matching, func(j int) bool { return j == of.index }) {
		list = append(list, stored[j])
	}
	return list, isElsewhere
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

func withSecret(t eventhook.Target, name, text string) eventhook.Secret {
	texts := sealedTexts(t)
	texts[name] = text
	raw, err := encode(texts)
	if err != nil {
		return t.Secrets // cannot happen: texts can be encoded
	}
	return eventhook.NewSecret(string(raw))
}
