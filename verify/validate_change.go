package verify

import (
	"slices"

	"github.com/eventhook/eventhook"
)

// ValidateChange checks the rules that apply to new and changed sources only: a
// verifier must be restricted to one account of its provider if it can be, no
// secret may be eventhook.Redacted, and its keys and fields must not exceed the
// CPU budget of a request. current is
// the sealed Spec that the source has, zero for a new source; updated is its
// sealed replacement. A fault that current has in the same words is not
// reported, so that existing sources keep working. If updated cannot be read,
// ValidateChange returns nil; Resolve reports such faults.
func ValidateChange(current, updated eventhook.Secret) eventhook.Faults {
	updatedSpec, err := ReadSpec(updated)
	if err != nil {
		return nil
	}
	faults := updatedSpec.faultsOfNew()
	if len(faults) == 0 || current.IsZero() {
		return faults
	}
	currentSpec, err := ReadSpec(current)
	if err != nil {
		return faults
	}
	existing := currentSpec.faultsOfNew()
	return slices.DeleteFunc(faults, func(f eventhook.Fault) bool { return slices.Contains(existing, f) })
}

func (s Spec) faultsOfNew() eventhook.Faults {
	return slices.Concat(s.unpinned(), s.redacted(), s.oversized())
}

// redacted reports each secret that is the placeholder of secrets in output.
func (s Spec) redacted() (f eventhook.Faults) {
	s.MapSecrets(func(place, secret string) string {
		if secret == eventhook.Redacted {
			f.Add(place, "is %s, the placeholder of secrets in output: set the secret itself", eventhook.Redacted)
		}
		return secret
	})
	return f
}

// Warnings returns recommended changes of the source, in a sentence each.
func (s Spec) Warnings() (texts []string) {
	for _, fault := range s.unpinned() {
		texts = append(texts, fault.Location+" "+fault.Message)
	}
	return texts
}

// unpinned reports the missing settings without which requests of every account
// at the provider are accepted.
func (s Spec) unpinned() (f eventhook.Faults) {
	const open = "Without it, the source accepts requests of every account at the provider"
	if s.Verifier != nil {
		if s.Verifier.Type == "aws_sns" && s.Verifier.Claims["TopicArn"] == "" {
			f.Add("verifier.claims", "must contain TopicArn, the ARN of the topic whose messages are accepted. %s", open)
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

// oversized reports the fields that exceed the limits of cost_cpu.go.
func (s Spec) oversized() (f eventhook.Faults) {
	at, keys := "", s.PublicKeys
	var c Config
	if s.Verifier != nil {
		at, c = "verifier", *s.Verifier
		keys = c.PublicKeys
	}
	var own eventhook.Faults
	if n := countKeys(keys); n > maxKeysUsed {
		own.Add("public_keys", "%d keys in all, want at most %d", n, maxKeysUsed)
	}
	c.oversized(&own)
	f.Merge(at, own)
	return f
}

// countKeys returns the number of distinct keys.
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
		f.Add("signed", "%d placeholders, fields and alternatives in signed, path and claims, want at most %d", lookups, maxLookups)
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
	if n := len(c.RequireHeaders); n > maxRequiredHeaders {
		f.Add("require_headers", "%d headers, want at most %d", n, maxRequiredHeaders)
	}
	if n := len(c.AlsoHeaders); n > maxAlsoHeaders {
		f.Add("also_headers", "%d headers, want at most %d", n, maxAlsoHeaders)
	}
}

func checkSteps(key string, paths fieldPath, f *eventhook.Faults) {
	for _, path := range paths {
		if len(path) > maxSteps || countOf(path, "#") > maxElements {
			f.Add(key, "a path has more than %d steps or more than %d # steps", maxSteps, maxElements)
			return
		}
	}
}
