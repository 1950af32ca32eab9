package web

import (
	"html/template"
	"strings"
)

// statusKinds maps the states of all resources to the six kinds of the visual language.
var statusKinds = map[string]string{
	"accepted": "ok", "active": "ok", "completed": "ok", "delivered": "ok", "enabled": "ok", "healthy": "ok", "matched": "ok", "online": "ok",
	"resolved": "ok", "sent": "ok", "succeeded": "ok", "verified": "ok", "ready": "ok", "success": "ok",
	"half_open": "running", "in_progress": "running", "processing": "running", "recovering": "running", "running": "running", "sending": "running", "leased": "running", "acquired": "running",
	"held": "waiting", "pending": "waiting", "queued": "waiting", "suspended": "waiting", "waiting": "waiting", "paused": "waiting",
	"degraded": "warning", "failed_attempt": "warning", "retrying": "warning", "unrouted": "warning", "warning": "warning", "expiring": "warning",
	"dead": "failed", "disabled": "failed", "failed": "failed", "open": "failed", "refused": "failed", "rejected": "failed", "critical": "failed", "offline": "failed",
}

var statusIcons = map[string]string{"ok": "✓", "running": "●", "waiting": "◷", "warning": "▲", "failed": "✕", "muted": "–"}

// Status is a state as an icon and a word. An unknown state is shown as muted.
func Status(state string) template.HTML {
	kind, ok := statusKinds[state]
	if !ok {
		kind = "muted"
	}
	return StatusAs(kind, state)
}

// StatusAs is a word with the icon and the color of a kind: ok, running, waiting, warning, failed
// or muted. A word of the API has spaces in place of its underscores, and itself as the title.
func StatusAs(kind, word string) template.HTML {
	icon, ok := statusIcons[kind]
	if !ok {
		kind, icon = "muted", statusIcons["muted"]
	}
	title := ""
	if strings.Contains(word, "_") {
		title = ` title="` + template.HTMLEscapeString(word) + `"`
	}
	return template.HTML(`<span class="status ` + kind + `"` + title + `><span class="icon" aria-hidden="true">` + icon + `</span>` + //nolint:gosec // the word is escaped
		template.HTMLEscapeString(strings.ReplaceAll(word, "_", " ")) + `</span>`)
}

// Subscription is the state of a subscription with that of its circuit breaker, as one word.
func Subscription(state, circuit string) template.HTML {
	if state == "active" && circuit != "closed" && circuit != "" {
		return StatusAs("failed", "circuit "+circuit)
	}
	return Status(state)
}

// Circuit is the state of a circuit breaker. A closed circuit is the healthy one.
func Circuit(state string) template.HTML {
	if state == "closed" || state == "" {
		return StatusAs("ok", "closed")
	}
	return Status(state)
}
