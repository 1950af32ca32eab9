package console

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/eventhook/eventhook/client"
)

// settings is the data of the form that changes a source.
type settings struct {
	Source client.Source
	Tab    string
	Form   form
	// SecretField is the field that replaces the secrets; "" if the source has none.
	SecretField string
}

// Fields are the fields of the broker's settings.
func (d settings) Fields() []settingField {
	if d.Source.Consume == nil {
		return nil
	}
	return consumeFields(d.Source.Consume.Type)
}

var (
	settingTexts   = []string{"name", "description", "replay_protection"}
	settingLists   = []string{"public_keys", "idempotency_key_paths", "event_type_paths", "allowed_ip_ranges", "content_types"}
	settingNumbers = []string{"tolerance_seconds", "max_body_bytes",
		"rate_limit.requests_per_second", "rate_limit.requests_per_minute", "rate_limit.burst_size",
		"retry.max_retries", "retry.initial_delay_ms", "retry.backoff_multiplier", "retry.max_delay_ms"}
	settingReply = []string{"response.status", "response.content_type", "response.body"}
)

func (c *Console) sourceSettings(r *request) (view, error) {
	source, err := r.api.GetSource(r.Context(), r.tenant, r.PathValue("slug"))
	if err != nil {
		return view{}, err
	}
	return r.settingsOf(source).view(), nil
}

func (r *request) settingsOf(s client.Source) settings {
	data := settings{Source: s, Tab: "settings", SecretField: secretField(s)}
	names := slices.Concat(settingTexts, settingLists, settingNumbers, settingReply,
		[]string{"is_enabled", "require_idempotency_key", "retry.schedule_seconds", "response", data.SecretField, "secrets", "verifier"})
	for _, name := range sortedNames(s.Options) {
		names = append(names, "options."+name)
	}
	broker, _ := consumeNames(data.Fields())
	names = slices.Concat(names, broker, []string{"options", "consume"})
	stored := valuesOfSource(s)
	data.Form = r.formOf(stored, names...)
	data.keepConsume(stored)
	return data
}

// Verification names the verifier of the requests, or the broker.
func (d settings) Verification() string { return verification(d.Source) }

// view shows the form, without the secrets that were typed.
func (d settings) view() view {
	d.Form.hide(sourceSecrets...)
	d.hideConsume()
	return view{Title: "Settings of " + d.Source.Name, Data: d}
}

// secretField returns the member that has the secrets of a source.
func secretField(s client.Source) string {
	switch {
	case s.Consume != nil:
		return ""
	case s.Verifier == nil:
		return "secrets"
	}
	return map[client.VerifierType]string{"none": "", "api_key": "verifier.values", "basic_auth": "verifier.password"}[s.Verifier.Type]
}

// valuesOfSource returns the fields of the form for a source as it is.
func valuesOfSource(s client.Source) url.Values {
	v := url.Values{"name": {s.Name}, "version": {strconv.FormatInt(s.Version, 10)}, "replay_protection": {string(s.ReplayProtection)}}
	put(v, "description", s.Description)
	put(v, "tolerance_seconds", s.ToleranceSeconds)
	put(v, "max_body_bytes", &s.MaxBodyBytes)
	put(v, "rate_limit.requests_per_second", s.RateLimit.RequestsPerSecond)
	put(v, "rate_limit.requests_per_minute", s.RateLimit.RequestsPerMinute)
	put(v, "rate_limit.burst_size", s.RateLimit.BurstSize)
	put(v, "retry.max_retries", s.Retry.MaxRetries)
	put(v, "retry.initial_delay_ms", s.Retry.InitialDelayMs)
	put(v, "retry.backoff_multiplier", s.Retry.BackoffMultiplier)
	put(v, "retry.max_delay_ms", s.Retry.MaxDelayMs)
	for name, list := range map[string][]string{"public_keys": s.PublicKeys, "idempotency_key_paths": s.IdempotencyKeyPaths,
		"event_type_paths": s.EventTypePaths, "allowed_ip_ranges": s.AllowedIPRanges, "content_types": s.ContentTypes} {
		v.Set(name, strings.Join(list, "\n"))
	}
	var delays []string
	for _, n := range s.Retry.ScheduleSeconds {
		delays = append(delays, strconv.FormatInt(n, 10))
	}
	v.Set("retry.schedule_seconds", strings.Join(delays, ", "))
	for name, value := range s.Options {
		v.Set("options."+name, value)
	}
	for name, isOn := range map[string]bool{"is_enabled": s.IsEnabled, "require_idempotency_key": s.RequireIdempotencyKey} {
		if isOn {
			v.Set(name, "true")
		}
	}
	if s.Response != nil {
		put(v, "response.status", &s.Response.Status)
		put(v, "response.content_type", s.Response.ContentType)
		put(v, "response.body", s.Response.Body)
	}
	putConsume(v, s.Consume)
	return v
}

func (c *Console) updateSource(r *request) (view, error) {
	if err := r.ParseForm(); err != nil {
		return view{}, err
	}
	source, err := r.api.GetSource(r.Context(), r.tenant, r.PathValue("slug"))
	if err != nil {
		return view{}, err
	}
	data := r.settingsOf(source)
	patch := data.patch()
	if len(data.Form.Faults) > 0 {
		return data.refused(http.StatusUnprocessableEntity)
	}
	raw, err := patch.body()
	if err != nil {
		return view{}, err
	}
	tag := etag(r.PostForm.Get("version"))
	_, err = r.api.UpdateSourceFrom(r.detached(), r.tenant, source.Slug, client.UpdateSourceParams{IfMatch: tag}, raw)
	switch {
	case err == nil:
	case !data.Form.refuse(err):
		return view{}, err
	case isStale(err):
		data.Form.Summary = staleText("source")
		return data.refused(http.StatusPreconditionFailed)
	default:
		return data.refused(http.StatusUnprocessableEntity)
	}
	return redirect(r.sourcePath()+"/settings", "The source is changed. Instances use the settings within a second.")
}

// refused shows the form again.
func (d settings) refused(status int) (view, error) {
	v := d.view()
	v.Status = status
	return v, nil
}

// patch returns the merge patch of the form. Secrets that are left empty keep their value.
func (d *settings) patch() members {
	m := membersOf(&d.Form, true)
	if d.Source.Consume != nil {
		d.patchConsuming(m)
		return m
	}
	m.texts(settingTexts...)
	m.lists(settingLists...)
	m.numbers(settingNumbers...)
	m.boxes("is_enabled", "require_idempotency_key")
	for _, name := range sortedNames(d.Source.Options) {
		m.texts("options." + name)
	}
	d.secrets(m)
	d.schedule(m)
	if d.Form.Get("response.status") == "" {
		m.set("response", nil)
	} else {
		m.numbers("response.status")
		m.texts("response.content_type", "response.body")
	}
	return m
}

// patchConsuming adds the fields of a source that consumes messages: those of webhooks are of no use.
func (d *settings) patchConsuming(m members) {
	m.texts("name", "description")
	m.lists("idempotency_key_paths", "event_type_paths", "content_types")
	m.numbers(settingNumbers[1:]...) // without the tolerance
	m.boxes("is_enabled", "require_idempotency_key")
	m.patchConsume(d.Source.Consume)
	d.schedule(m)
}

func (d *settings) secrets(m members) {
	switch values := lines(d.Form.Get(d.SecretField)); {
	case d.SecretField == "" || len(values) == 0:
	case d.SecretField == "verifier.password":
		m.set(d.SecretField, values[0])
	default:
		m.set(d.SecretField, values)
	}
}

func (d *settings) schedule(m members) {
	const name = "retry.schedule_seconds"
	delays := []int64{}
	for _, text := range strings.FieldsFunc(d.Form.Get(name), func(r rune) bool { return r == ',' || r == ' ' || r == '\n' || r == '\r' }) {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			m.form.Faults[name] = text + " is not a number of seconds"
			return
		}
		delays = append(delays, n)
	}
	m.setUnlessEmpty(name, len(delays) == 0, delays)
}

// etag returns the condition that a resource has still the version that the form was made of.
func etag(version string) *string {
	if version == "" {
		return nil
	}
	tag := strconv.Quote(version)
	return &tag
}

// isStale reports whether a resource was changed since the form was made.
func isStale(err error) bool {
	p, ok := errors.AsType[*client.Problem](err)
	return ok && p.Status == http.StatusPreconditionFailed
}

func staleText(noun string) string {
	return "Somebody changed this " + noun + " since you opened the form, and nothing was saved. " +
		"Open the form again in another tab to see the change; then repeat yours there."
}

func (c *Console) deleteSource(r *request) (view, error) {
	if err := r.ParseForm(); err != nil {
		return view{}, err
	}
	cascade := r.PostForm.Get("cascade") != ""
	params := client.DeleteSourceParams{Cascade: &cascade, IfMatch: etag(r.PostForm.Get("version"))}
	if err := r.api.DeleteSource(r.detached(), r.tenant, r.PathValue("slug"), params); err != nil {
		return view{}, err
	}
	return redirect(r.base()+"/sources", "The source "+r.PathValue("slug")+" is deleted. Its events are kept.")
}
