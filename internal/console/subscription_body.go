package console

import (
	"encoding/json"
	"net/url"
	"reflect"
	"slices"
	"strings"
)

// A subscriptionBody has the members of a subscription as the API takes them. A member without a
// value is nil. A text that cannot be read as a number or as JSON stays a text, so that the API
// refuses it at the right field.
type subscriptionBody map[string]any

// bodyOf returns the members that a form has. Secrets that are not filled in are left out.
func bodyOf(v url.Values) subscriptionBody {
	b := subscriptionBody{"name": v.Get("name"), "url": strings.TrimSpace(v.Get("url")), "event_types": textList(v["event_types"]),
		"scope_filter": textList(strings.Split(v.Get("scope_filter"), "\n")), "target_labels": textList(strings.Split(v.Get("target_labels"), "\n")),
		"filter": parsedJSON(v.Get("filter")), "format": orNil(v.Get("format")), "header_prefix": orNil(v.Get("header_prefix")), "headers": headersOf(v.Get("headers")),
		"signatures": textList(v["signatures"]), "ordered_by": orNil(strings.TrimSpace(v.Get("ordered_by"))), "transform": nil,
		"timeout_seconds": parsedJSON(v.Get("timeout_seconds")), "disable_after_failures": parsedJSON(v.Get("disable_after_failures")),
		"max_in_flight": parsedJSON(v.Get("max_in_flight")), "rate_per_second": parsedJSON(v.Get("rate_per_second")),
		"recovery": map[string]any{"enabled": v.Get("recovery.enabled") == "true", "max_age_hours": parsedJSON(v.Get("recovery.max_age_hours"))},
		"retry": map[string]any{"max_retries": parsedJSON(v.Get("retry.max_retries")), "initial_delay_ms": parsedJSON(v.Get("retry.initial_delay_ms")),
			"backoff_multiplier": parsedJSON(v.Get("retry.backoff_multiplier")), "max_delay_ms": parsedJSON(v.Get("retry.max_delay_ms")),
			"schedule_seconds": numbersOf(v.Get("retry.schedule_seconds")), "jitter": orNil(v.Get("retry.jitter")),
			"terminal_statuses": numbersOf(v.Get("retry.terminal_statuses"))},
	}
	if kind := v.Get("transform.type"); kind != "" {
		b["transform"] = map[string]any{"type": kind, "expression": unixText(v.Get("transform.expression")), "retry": v.Get("transform.retry") == "true"}
	}
	if secret := v.Get("signing_secret"); secret != "" {
		b["signing_secret"] = secret
	}
	b.addAuth(v)
	return b
}

// addAuth adds auth_header or auth. The one that the form does not choose is nil, which deletes it.
func (b subscriptionBody) addAuth(v url.Values) {
	kind := v.Get("auth")
	b["auth_header"], b["auth"] = nil, nil
	if kind == authHeader {
		if delete(b, "auth_header"); v.Get("auth_header") != "" {
			b["auth_header"] = v.Get("auth_header")
		}
		return
	}
	members := authMembers[kind]
	if len(members) == 0 {
		return
	}
	auth := map[string]any{"type": kind}
	for _, name := range members {
		text := strings.TrimSpace(unixText(v.Get("auth." + name)))
		switch {
		case name == "scopes":
			auth[name] = textList(strings.Fields(text))
		case text != "" || !slices.Contains(authSecrets, name):
			auth[name] = orNil(text)
		}
	}
	b["auth"] = auth
}

// created returns the body of a creation: the members that have a value.
func (b subscriptionBody) created() json.RawMessage { return bodyJSON(withoutNil(b)) }

// changedFrom returns a merge patch with the members that differ from those of the stored
// subscription. A nil member is deleted.
func (b subscriptionBody) changedFrom(stored subscriptionBody) json.RawMessage {
	patch := map[string]any{}
	for name, value := range b {
		if have, ok := stored[name]; !ok || !reflect.DeepEqual(have, value) {
			patch[name] = value
		}
	}
	if headers, ok := patch["headers"].(map[string]any); ok {
		have, _ := stored["headers"].(map[string]any)
		for name := range have {
			if _, ok := headers[name]; !ok {
				headers[name] = nil
			}
		}
	}
	return bodyJSON(patch)
}

func withoutNil(members map[string]any) map[string]any {
	kept := map[string]any{}
	for name, value := range members {
		if inner, ok := value.(map[string]any); ok {
			value = withoutNil(inner)
		}
		if value != nil {
			kept[name] = value
		}
	}
	return kept
}

func bodyJSON(v any) json.RawMessage {
	raw, _ := json.Marshal(v) // has JSON values only
	return raw
}

func orNil(text string) any {
	if text == "" {
		return nil
	}
	return text
}

// textList returns the texts that are not empty, without spaces around them.
func textList(list []string) any {
	kept := []any{}
	for _, text := range list {
		if text = strings.TrimSpace(text); text != "" {
			kept = append(kept, text)
		}
	}
	return kept
}

// parsedJSON returns the value of a JSON text, nil for "", and the text itself if it is not JSON.
func parsedJSON(text string) any {
	var value any
	if text = strings.TrimSpace(text); text == "" {
		return nil
	}
	if len(text) > maxDocument || json.Unmarshal([]byte(text), &value) != nil {
		return text
	}
	return value
}

// numbersOf returns numbers that commas or spaces separate.
func numbersOf(text string) any {
	list := []any{}
	for _, word := range strings.FieldsFunc(text, func(c rune) bool { return c == ',' || c == ' ' || c == '\n' || c == '\r' }) {
		list = append(list, parsedJSON(word))
	}
	return list
}

// headersOf returns the headers of lines of the form Name: value.
func headersOf(text string) any {
	headers := map[string]any{}
	for line := range strings.Lines(text) {
		if name, value, _ := strings.Cut(line, ":"); strings.TrimSpace(line) != "" {
			headers[strings.TrimSpace(name)] = strings.TrimSpace(value)
		}
	}
	return headers
}

// unixText returns the text of a field of several lines, in which browsers end lines with CRLF.
func unixText(text string) string { return strings.ReplaceAll(text, "\r\n", "\n") }
