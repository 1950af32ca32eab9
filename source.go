package eventhook

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Source is one place that sends webhooks to a tenant, with its own URL,
// verifier and limits.
type Source struct {
	ID           SourceID
	TenantID     TenantID
	TenantSlug   string
	TenantStatus TenantStatus
	Slug         string
	Name         string
	Provider     string
	Verifier     Secret // JSON of a verify.Spec
	SecretsCount int
	// LearnedSecrets are those that the provider's handshake has brought.
	LearnedSecrets []Secret
	// SecretRevealed says that a person was shown the learned secret.
	SecretRevealed bool
	// HandshakeOpenedAt is when the source was created, or began again to wait
	// for its handshake.
	HandshakeOpenedAt time.Time
	IsEnabled         bool
	Version           int64 // grows with every change
	Quota             Quota // the tenant's
	CreatedAt         time.Time
	UpdatedAt         time.Time
	SourceSettings
}

// SourceSettings are the parts of a source that only its rooms interpret.
// Lists that are empty and limits that are zero mean the default.
type SourceSettings struct {
	IdempotencyKeyPaths   []string     `json:"idempotency_key_paths,omitempty" yaml:"idempotency_key_paths"`
	EventTypePaths        []string     `json:"event_type_paths,omitempty" yaml:"event_type_paths"`
	RequireIdempotencyKey bool         `json:"require_idempotency_key,omitempty" yaml:"require_idempotency_key"`
	RateLimit             RateLimit    `json:"rate_limit,omitzero" yaml:"rate_limit"`
	Retry                 RetryPolicy  `json:"retry,omitzero" yaml:"retry"`
	AllowedIPRanges       []string     `json:"allowed_ip_ranges,omitempty" yaml:"allowed_ip_ranges"`
	MaxBodyBytes          int          `json:"max_body_bytes,omitempty" yaml:"max_body_bytes"`
	ContentTypes          []string     `json:"content_types,omitempty" yaml:"content_types"`
	Response              *SourceReply `json:"response,omitempty" yaml:"response"`
	ReplayProtection      string       `json:"replay_protection,omitempty" yaml:"replay_protection"`
}

// What SourceSettings.ReplayProtection says; empty is the provider's default.
const (
	ReplayBody = "body" // a request whose signed bytes the source has accepted before is a duplicate
	ReplayOff  = "off"
)

// HandshakeWindow is how long after Source.HandshakeOpenedAt a secret is taken
// that counts at once.
const HandshakeWindow = time.Hour

// SourceReply is the answer to an accepted webhook, for providers that check it.
type SourceReply struct {
	Status      int    `json:"status" yaml:"status"`
	ContentType string `json:"content_type" yaml:"content_type"`
	Body        string `json:"body" yaml:"body"`
}

// RateLimit bounds the requests to a source on each instance, before they are
// verified.
type RateLimit struct {
	RequestsPerSecond int `json:"requests_per_second,omitempty" yaml:"requests_per_second"`
	RequestsPerMinute int `json:"requests_per_minute,omitempty" yaml:"requests_per_minute"`
	BurstSize         int `json:"burst_size,omitempty" yaml:"burst_size"`
}

// Limits of bodies.
const (
	DefaultMaxBodyBytes = 1 << 20
	LargestMaxBodyBytes = 32 << 20
)

// The default rate limit of a source.
const (
	DefaultRequestsPerSecond = 100
	DefaultRequestsPerMinute = 1000
	DefaultBurstSize         = 50
)

// WithDefaults fills in what is zero.
func (r RateLimit) WithDefaults() RateLimit {
	return RateLimit{
		RequestsPerSecond: orDefault(r.RequestsPerSecond, DefaultRequestsPerSecond),
		RequestsPerMinute: orDefault(r.RequestsPerMinute, DefaultRequestsPerMinute),
		BurstSize:         orDefault(r.BurstSize, DefaultBurstSize),
	}
}

// BodyLimit is MaxBodyBytes or its default.
func (s SourceSettings) BodyLimit() int { return orDefault(s.MaxBodyBytes, DefaultMaxBodyBytes) }

func orDefault[T comparable](v, fallback T) T {
	var zero T
	if v == zero {
		return fallback
	}
	return v
}

// reservedSources are slugs that no source has: the console shows a form at
// the one, and filters say the other for every source.
var reservedSources = []string{"new", "all"}

// Validate reports every fault by its field. It changes nothing. The verifier
// has rules of its own, in package verify.
func (s Source) Validate() Faults {
	var f Faults
	checkSlug(&f, "slug", s.Slug)
	if slices.Contains(reservedSources, s.Slug) {
		f.Add("slug", "%q is reserved", s.Slug)
	}
	checkName(&f, s.Name)
	f.Merge("", s.SourceSettings.Validate())
	return f
}

// Validate reports every fault by its field. It changes nothing.
func (s SourceSettings) Validate() Faults {
	var f Faults
	checkLength(&f, "idempotency_key_paths", s.IdempotencyKeyPaths, 20)
	checkLength(&f, "event_type_paths", s.EventTypePaths, 20)
	checkLength(&f, "allowed_ip_ranges", s.AllowedIPRanges, 1000)
	checkLength(&f, "content_types", s.ContentTypes, 50)
	for i, p := range s.IdempotencyKeyPaths {
		checkPath(&f, fmt.Sprintf("idempotency_key_paths[%d]", i), p)
	}
	for i, p := range s.EventTypePaths {
		checkPath(&f, fmt.Sprintf("event_type_paths[%d]", i), p)
	}
	checkRange(&f, "rate_limit.requests_per_second", s.RateLimit.RequestsPerSecond, 0, 1_000_000)
	checkRange(&f, "rate_limit.requests_per_minute", s.RateLimit.RequestsPerMinute, 0, 60_000_000)
	checkRange(&f, "rate_limit.burst_size", s.RateLimit.BurstSize, 0, 1_000_000)
	checkRange(&f, "max_body_bytes", s.MaxBodyBytes, 0, LargestMaxBodyBytes)
	f.Merge("retry", s.Retry.Validate())
	if s.Retry.Jitter != "" {
		f.Add("retry.jitter", "is for subscriptions")
	}
	for i, r := range s.AllowedIPRanges {
		if _, err := netip.ParsePrefix(r); err != nil {
			f.Add(fmt.Sprintf("allowed_ip_ranges[%d]", i), "%q is not a CIDR such as 192.0.2.0/24", r)
		}
	}
	for i, c := range s.ContentTypes {
		checkLine(&f, fmt.Sprintf("content_types[%d]", i), c)
	}
	if s.ReplayProtection != "" && s.ReplayProtection != ReplayBody && s.ReplayProtection != ReplayOff {
		f.Add("replay_protection", "%q is neither %s nor %s", s.ReplayProtection, ReplayBody, ReplayOff)
	}
	if s.Response != nil {
		f.Merge("response", s.Response.validate())
	}
	return f
}

func (r SourceReply) validate() Faults {
	var f Faults
	checkRange(&f, "status", r.Status, 200, 299)
	checkLine(&f, "content_type", r.ContentType)
	checkRange(&f, "body", len(r.Body), 0, 64<<10)
	if !isText(r.Body) {
		f.Add("body", "must be UTF-8 without NUL")
	}
	if r.Body != "" && (r.Status == 204 || r.Status == 205) {
		f.Add("body", "must be empty: an answer with status %d has none", r.Status)
	}
	return f
}

func checkLength(f *Faults, location string, list []string, most int) {
	if len(list) > most {
		f.Add(location, "%d, at most %d are allowed", len(list), most)
	}
}

func checkLine(f *Faults, location, s string) {
	if len(s) > MaxKeyBytes || !isText(s) || strings.ContainsAny(s, "\r\n") {
		f.Add(location, "must be a single line of at most %d bytes of text", MaxKeyBytes)
	}
}

func checkRange(f *Faults, location string, v, least, most int) {
	if v < least || v > most {
		f.Add(location, "%d is not between %d and %d", v, least, most)
	}
}

// BodyHashPath stands for the SHA-256 of a body, in hexadecimal: a key for
// webhooks that have no id, and of which two that are alike are one.
const BodyHashPath = "sha256.body"

// pathKinds are what a single path begins with, but for BodyHashPath.
var pathKinds = []string{"header", "body", "cloudevent"}

// PathParts are the single paths that a path joins with " + ". Members of a
// body whose name holds that are reached only where no path follows it.
func PathParts(path string) []string {
	const plus = " + "
	var parts []string
	for from := 0; ; {
		i := strings.Index(path[from:], plus)
		if i < 0 {
			return append(parts, path)
		}
		i += from
		next := path[i+len(plus):]
		if next == BodyHashPath || slices.ContainsFunc(pathKinds, func(kind string) bool { return strings.HasPrefix(next, kind+".") }) {
			parts, path, from = append(parts, path[:i]), next, 0
			continue
		}
		from = i + len(plus)
	}
}

// CheckPath says what is wrong with a path into a webhook, "" if nothing:
// header.<name>, body.<member or index>[.…], cloudevent.<attribute>,
// cloudevent.data[.…], sha256.body, or several of them joined by " + ".
func CheckPath(path string) string {
	if !isText(path) || len(path) > MaxKeyBytes {
		return fmt.Sprintf("must be UTF-8 of at most %d bytes", MaxKeyBytes)
	}
	for _, part := range PathParts(path) {
		if wrong := checkPathPart(part); wrong != "" {
			return wrong
		}
	}
	return ""
}

func checkPathPart(path string) string {
	kind, rest, ok := strings.Cut(path, ".")
	switch {
	case path == BodyHashPath:
		return ""
	case !ok || rest == "" || !slices.Contains(pathKinds, kind):
		return fmt.Sprintf("%q must be header.<name>, body.<path>, cloudevent.<path> or sha256.body", path)
	case kind == "header" && !isToken(rest):
		return fmt.Sprintf("%q names no header: its name is letters, digits and !#$%%&'*+-.^_`|~", path)
	case kind != "header" && (strings.HasPrefix(rest, ".") || strings.HasSuffix(rest, ".") || strings.Contains(rest, "..")):
		return fmt.Sprintf("%q has an empty step", path)
	}
	return ""
}

// isToken reports whether s can name a header: RFC 9110, section 5.6.2.
func isToken(s string) bool {
	for _, c := range []byte(s) {
		isPlain := '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !isPlain && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return s != ""
}

func checkPath(f *Faults, location, path string) {
	if wrong := CheckPath(path); wrong != "" {
		f.Add(location, "%s", wrong)
	}
}
