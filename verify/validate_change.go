package verify

import (
	"slices"

	"github.com/eventhook/eventhook"
)

// ValidateChange are what a new source may not have, each fault by its field,
// although a source that has it already goes on: a verifier that accepts any
// account of its provider, and more keys and fields than one request may cost.
// have is what the source had before, zero for a new one. What was wrong with it
// in the same words is no fault.
func ValidateChange(have, want eventhook.Secret) eventhook.Faults {
	wanted, err := ReadSpec(want)
	if err != nil {
		return nil // which is told elsewhere
	}
	faults := slices.Concat(wanted.unpinned(), wanted.oversized())
	if len(faults) == 0 || have.IsZero() {
		return faults
	}
	had, err := ReadSpec(have)
	if err != nil {
		return faults
	}
	old := slices.Concat(had.unpinned(), had.oversized())
	return slices.DeleteFunc(faults, func(one eventhook.Fault) bool { return slices.Contains(old, one) })
}

// Warnings are what should be changed of a source, in a sentence each.
func (s Spec) Warnings() (texts []string) {
	for _, fault := range s.unpinned() {
		texts = append(texts, fault.Location+" "+fault.Message)
	}
	return texts
}

// unpinned are the settings without which any account of the provider is
// believed.
func (s Spec) unpinned() (f eventhook.Faults) {
	const open = "Without it, the source accepts requests of every account at the provider"
	if s.Verifier != nil {
		if s.Verifier.Type == "aws_sns" && s.Verifier.Claims["TopicArn"] == "" {
			f.Add("verifier.claims", "must have TopicArn, the topic whose messages are accepted. %s", open)
		}
		return f
	}
	preset, _ := FindPreset(s.Provider, s.Scheme)
	for _, o := range preset.Options {
		if o.Pins && s.Options[o.Name] == "" {
			f.Add("options."+o.Name, "is required: %s. %s", o.About, open)
		}
	}
	return f
}

// oversized are the keys and fields beyond what one request may cost.
func (s Spec) oversized() (f eventhook.Faults) {
	at, keys := "", s.PublicKeys
	var c Config
	if s.Verifier != nil {
		at, c = "verifier", *s.Verifier
		keys = c.PublicKeys
	}
	var own eventhook.Faults
	if n := countKeys(keys); n > maxKeysUsed {
		own.Add("public_keys", "%d keys in all, want at most %d: more are not looked at", n, maxKeysUsed)
	}
	c.oversized(&own)
	f.Merge(at, own)
	return f
}

// countKeys counts each key once, however often it is repeated.
func countKeys(texts []string) int { return len(distinctKeys(texts)) }

func (c Config) oversized(f *eventhook.Faults) {
	m, _ := parseMessage(c.Signed)
	lookups := len(parseFieldPath(c.Path)) + len(c.Claims)
	for _, p := range slices.Concat(m.before, m.after) {
		if p.kind != literal {
			lookups += max(len(p.path), 1)
		}
		checkSteps("signed", p.path, f)
	}
	if lookups > maxLookups {
		f.Add("signed", "%d placeholders, fields and alternatives, with those of path, want at most %d", lookups, maxLookups)
	}
	checkSteps("path", parseFieldPath(c.Path), f)
	checkSteps("items", parseFieldPath(c.Items), f)
	for name := range c.Claims {
		if c.Type == "public_key" {
			checkSteps("claims", parseFieldPath(name), f)
		}
	}
	checkSteps("header_json", parseFieldPath(c.HeaderJSON), f)
	if n := len(parseFieldPath(c.HeaderJSON)); n > maxSteps {
		f.Add("header_json", "%d alternatives, want at most %d", n, maxSteps)
	}
	if n := len(c.RequireHeaders); n > maxRequired {
		f.Add("require_headers", "%d of them, want at most %d", n, maxRequired)
	}
	if n := len(c.AlsoHeaders); n > maxAlso {
		f.Add("also_headers", "%d of them, want at most %d", n, maxAlso)
	}
}

func checkSteps(key string, paths fieldPath, f *eventhook.Faults) {
	for _, path := range paths {
		if len(path) > maxSteps || countOf(path, "#") > maxElements {
			f.Add(key, "a path of more than %d steps, or more than %d steps #", maxSteps, maxElements)
			return
		}
	}
}
