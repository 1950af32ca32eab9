package console

import (
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/web"
)

// Kinds of the authentication to a receiver in the form: a header, or a type of auth.
const (
	authNone   = "none"
	authHeader = "header"
)

// authMembers are the fields of the types of auth; those of authSecrets are never shown.
var authMembers = map[string][]string{"basic": {"username", "password"}, "oauth2": {"token_url", "client_id", "client_secret", "scopes"},
	"mtls": {"certificate", "private_key", "ca"}, "aws_sigv4": {"access_key_id", "secret_access_key", "region", "service"}}

var authSecrets = []string{"password", "client_secret", "private_key", "secret_access_key"}

// subscriptionSecrets are the fields for secrets.
var subscriptionSecrets = []string{"auth_header", "auth.password", "auth.client_secret", "auth.private_key",
	"auth.secret_access_key", "signing_secret"}

// subscriptionFields are the fields of the form by the names of the API. A field that contains
// another one comes after it.
var subscriptionFields = []string{"name", "url", "event_types", "scope_filter", "filter", "target_labels", "format", "transform.type", "transform.expression",
	"transform.retry", "transform", "headers", "header_prefix", "auth_header", "auth.username", "auth.password", "auth.token_url", "auth.client_id",
	"auth.client_secret", "auth.scopes", "auth.certificate", "auth.private_key", "auth.ca", "auth.access_key_id", "auth.secret_access_key", "auth.region",
	"auth.service", "auth", "retry.max_retries", "retry.initial_delay_ms", "retry.backoff_multiplier", "retry.max_delay_ms", "retry.schedule_seconds",
	"retry.jitter", "retry.terminal_statuses", "timeout_seconds", "disable_after_failures", "max_in_flight", "rate_per_second", "ordered_by",
	"recovery.enabled", "recovery.max_age_hours", "signatures", "signing_secret"}

// newSubscriptionValues are the values of an empty form.
func newSubscriptionValues() url.Values {
	return url.Values{"auth": {authNone}, "format": {"eventhook"}, "signatures": {"v1"}, "recovery.enabled": {"true"}, "retry.jitter": {"some"}}
}

// valuesOf returns a subscription as values of the form. Secrets are left out.
func valuesOf(s client.Subscription) url.Values {
	v := url.Values{"name": {s.Name}, "url": {s.URL}, "event_types": s.EventTypes, "scope_filter": joined(s.ScopeFilter), "target_labels": joined(s.TargetLabels),
		"format": {string(s.Format)}, "header_prefix": {s.HeaderPrefix}, "headers": {headerLines(s.Headers)}, "signatures": s.Signatures,
		"timeout_seconds": integers(&s.TimeoutSeconds), "disable_after_failures": integers(&s.DisableAfterFailures), "max_in_flight": integers(&s.MaxInFlight),
		"rate_per_second": integers(&s.RatePerSecond), "recovery.max_age_hours": integers(s.Recovery.MaxAgeHours), "version": integers(&s.Version),
		"retry.max_retries": integers(s.Retry.MaxRetries), "retry.initial_delay_ms": integers(s.Retry.InitialDelayMs), "retry.max_delay_ms": integers(s.Retry.MaxDelayMs),
		"retry.schedule_seconds": {numbers(s.Retry.ScheduleSeconds)}, "retry.terminal_statuses": {numbers(s.Retry.TerminalStatuses)}}
	if s.Retry.BackoffMultiplier != nil {
		v.Set("retry.backoff_multiplier", strconv.FormatFloat(*s.Retry.BackoffMultiplier, 'f', -1, 64))
	}
	if s.Retry.Jitter != nil {
		v.Set("retry.jitter", string(*s.Retry.Jitter))
	}
	if s.Recovery.Enabled == nil || *s.Recovery.Enabled {
		v.Set("recovery.enabled", "true")
	}
	if s.OrderedBy != nil {
		v.Set("ordered_by", *s.OrderedBy)
	}
	if len(s.Filter) > 0 {
		v.Set("filter", web.Editable(plainJSON(s.Filter)))
	}
	if t := s.Transform; t != nil {
		v.Set("transform.type", string(t.Type))
		v.Set("transform.expression", t.Expression)
		v.Set("transform.retry", strconv.FormatBool(t.Retry != nil && *t.Retry))
	}
	addAuthValues(v, s)
	return v
}

func addAuthValues(v url.Values, s client.Subscription) {
	v.Set("auth", authNone)
	if s.AuthHeader != nil {
		v.Set("auth", authHeader)
	}
	if s.Auth == nil {
		return
	}
	v.Set("auth", string(s.Auth.Type))
	raw, _ := json.Marshal(s.Auth) // has texts and a list of texts only
	var members map[string]any
	_ = json.Unmarshal(raw, &members)
	for _, name := range authMembers[string(s.Auth.Type)] {
		if text, ok := members[name].(string); ok && !slices.Contains(authSecrets, name) {
			v.Set("auth."+name, text)
		}
	}
	v.Set("auth.scopes", strings.Join(s.Auth.Scopes, " "))
}

func joined(list []string) []string { return []string{strings.Join(list, "\n")} }

func integers(n *int64) []string {
	if n == nil {
		return nil
	}
	return []string{strconv.FormatInt(*n, 10)}
}

func numbers(list []int64) string {
	texts := make([]string, len(list))
	for i, n := range list {
		texts[i] = strconv.FormatInt(n, 10)
	}
	return strings.Join(texts, ", ")
}

// headerLines returns headers as lines of the form Name: value, in order.
func headerLines(headers map[string]string) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		list = append(list, name+": "+headers[name])
	}
	return strings.Join(list, "\n")
}
