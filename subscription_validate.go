package eventhook

import (
	"fmt"
	"maps"
	"net/textproto"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// MaxSubscriptions is the maximum number of subscriptions of a tenant. Each instance
// caches them in memory.
const MaxSubscriptions = 20_000

// MaxSigningSecrets is the maximum number of secrets that sign at the same time: the
// current and the previous one.
const MaxSigningSecrets = 2

// MaxScopePattern is the maximum length of a pattern of a scope_filter in bytes.
const MaxScopePattern = 256

// Limits of the fields of a subscription.
const (
	maxEventTypes        = 100
	maxHeaders           = 50
	maxLabels            = 20
	maxLabel             = 128
	maxURL               = 2048
	maxTimeout           = 60 // seconds
	maxFailuresToDisable = 1000
	maxInFlight          = 1000
	maxRate              = 10_000
	maxScopePatterns     = 20
	maxTransform         = 16 << 10
	maxHeaderPrefix      = 40
	maxOrderedBy         = 256
	maxRecoveryHours     = 14 * 24
	largestPort          = 65535
	insecureWarning      = "is not encrypted: anyone on the network path can read the events and the auth_header; use https"
)

// Validate returns every fault by its field and changes nothing. No fault contains a
// secret. Package outbound/match checks the filter. If SecretsLost is set, the
// secrets are not checked.
func (s Subscription) Validate() Faults {
	var f Faults
	checkName(&f, s.Name)
	if len(s.EventTypes) == 0 {
		f.Add("event_types", `at least one is required; "*" matches all`)
	}
	checkLength(&f, "event_types", s.EventTypes, maxEventTypes)
	for i, p := range s.EventTypes {
		check := CheckSubscribed
		if s.IsOperator() {
			check = CheckPattern // the operator also receives types that tenants do not
		}
		if wrong := check(p); wrong != "" {
			f.Add(fmt.Sprintf("event_types[%d]", i), "%s", wrong)
		}
	}
	if !s.SecretsLost {
		f.Merge("", s.SubscriptionSecrets.validate())
		s.validateDestination(&f)
	}
	f.Merge("", s.SubscriptionSettings.Validate())
	if s.IsOperator() && s.IsForAgents() {
		f.Add("target_labels", "must be empty for an operator subscription: agents belong to tenants")
	}
	s.validateTenants(&f)
	return f
}

// CheckSubscribed says why a subscription cannot have an event type pattern, "" if
// it can. It refuses the patterns that CheckPattern refuses, and patterns that no
// event for subscriptions can match.
func CheckSubscribed(pattern string) string {
	if wrong := CheckPattern(pattern); wrong != "" || pattern == "*" {
		return wrong
	}
	if wrong := checkTypeCharacters(strings.TrimSuffix(pattern, ".*")); wrong != "" {
		return fmt.Sprintf("%q %s", SanitizeLabel(pattern), wrong)
	}
	if !IsVisibleToTenants(pattern) {
		return fmt.Sprintf("%q is an event type that tenants cannot subscribe to", pattern)
	}
	return ""
}

func (s SubscriptionSecrets) validate() (f Faults) {
	if wrong, _ := CheckSubscriptionURL(s.URL.Reveal()); wrong != "" {
		f.Add("url", "%s", wrong)
	}
	if s.AuthHeader.Reveal() == Redacted {
		f.Add("auth_header", "is the placeholder of a stored value, but no value is stored")
	}
	if !IsHeaderValue(s.AuthHeader.Reveal()) {
		f.Add("auth_header", "must be one line of at most %d bytes of text, without leading or trailing space", MaxHeaderValue)
	}
	f.Merge("auth", s.validateAuth())
	for _, signing := range s.Signing {
		if wrong := CheckSigningSecret(signing.Secret.Reveal()); wrong != "" {
			f.Add("signing_secret", "%s", wrong)
		}
	}
	return f
}

func (s SubscriptionSecrets) validateAuth() (f Faults) {
	auth, err := OpenAuth(s.Auth)
	switch {
	case err != nil:
		f.Add("", "%s", err)
	case auth != nil:
		if f = auth.Validate(); !s.AuthHeader.IsZero() {
			f.Add("", "cannot be combined with auth_header: set one of them to null")
		}
	}
	return f
}

// validateDestination checks the Auth together with the receiver.
func (s Subscription) validateDestination(f *Faults) {
	if auth, err := OpenAuth(s.Auth); err == nil && auth != nil {
		f.Merge("auth", auth.CheckDestination(s.URL.Reveal(), s.IsForAgents()))
	}
}

// Validate returns every fault by its field and changes nothing. Zero fields are
// valid where zero means the default.
func (s SubscriptionSettings) Validate() Faults {
	var f Faults
	s.checkHeaders(&f)
	CheckLabels(&f, "target_labels", s.TargetLabels)
	f.Merge("retry", s.Retry.validate(deliveryRetryBounds))
	checkRange(&f, "timeout_seconds", s.TimeoutSeconds, 0, maxTimeout)
	if n := s.DisableAfterFailures; n != nil {
		checkRange(&f, "disable_after_failures", *n, 0, maxFailuresToDisable)
	}
	checkRange(&f, "max_in_flight", s.MaxInFlight, 0, maxInFlight)
	checkRange(&f, "rate_per_second", s.RatePerSecond, 0, maxRate)
	s.checkShape(&f)
	checkRange(&f, "recovery.max_age_hours", s.Recovery.MaxAgeHours, 0, maxRecoveryHours)
	if wrong := checkOrderedBy(s.OrderedBy); wrong != "" {
		f.Add("ordered_by", "%s", wrong)
	}
	for i, v := range s.Signatures {
		at := fmt.Sprintf("signatures[%d]", i)
		switch {
		case v != SignatureHMAC && v != SignatureEd25519:
			f.Add(at, "%q is not %s or %s", SanitizeLabel(v), SignatureHMAC, SignatureEd25519)
		case slices.Contains(s.Signatures[:i], v):
			f.Add(at, "%q is given twice", v)
		}
	}
	return f
}

func (s SubscriptionSettings) checkHeaders(f *Faults) {
	if len(s.Headers) > maxHeaders {
		f.Add("headers", "%d, at most %d are allowed", len(s.Headers), maxHeaders)
	}
	seen := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(s.Headers)) {
		at := "headers." + SanitizeLabel(name)
		if wrong := CheckSubscriptionHeader(name, s.Headers[name]); wrong != "" {
			f.Add(at, "%s", wrong)
		}
		canonical := textproto.CanonicalMIMEHeaderKey(name)
		if seen[canonical] {
			f.Add(at, "is given twice: header names are case-insensitive")
		}
		seen[canonical] = true
	}
}

// CheckLabel says what is wrong with a label of agents, "" if nothing: key:value
// such as region:eu-west, of letters, digits and ._/-.
func CheckLabel(label string) string {
	key, value, _ := strings.Cut(label, ":")
	if len(label) > maxLabel || !isLabelWord(key) || !isLabelWord(value) {
		return fmt.Sprintf("%q must be key:value, such as region:eu-west, of letters, digits and ._/- and at most %d bytes", SanitizeLabel(label), maxLabel)
	}
	return ""
}

func isLabelWord(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune("._/-", c)
	})
}

// CheckSubscriptionURL says why a URL is invalid for a subscription, "" if it is
// valid, and returns a warning for its owner, "" without one. Neither text contains
// the URL, because it may contain a secret. CheckSubscriptionURL does not check
// whether the address may be reached.
func CheckSubscriptionURL(text string) (wrong, warning string) {
	u, err := url.Parse(text)
	switch {
	case text == "":
		return "is required: the URL that receives the events", ""
	case len(text) > maxURL:
		return fmt.Sprintf("has %d bytes, at most %d are allowed", len(text), maxURL), ""
	case err != nil || !isText(text) || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || !IsPort(u.Port()):
		return "must be a URL such as https://billing.example/hooks", ""
	case u.User != nil:
		return "must not contain a user or a password: use auth or auth_header", ""
	case u.Fragment != "" || strings.HasSuffix(text, "#"):
		return "must not have a fragment: the part after # is never sent", ""
	case u.Scheme == "http":
		return "", insecureWarning
	}
	return "", ""
}

// IsPort reports whether the port of a URL is empty or a number from 1 to 65535.
func IsPort(port string) bool {
	if port == "" {
		return true
	}
	n, err := strconv.Atoi(port)
	return err == nil && n > 0 && n <= largestPort
}
