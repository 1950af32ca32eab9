package send

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/payload"
)

// Limits of the products in characters. Slack: a header has at most 150 characters and a
// section 3000 (docs.slack.dev, Block Kit). Teams: a message has at most 28 KB.
const (
	maxSlackHeader  = 150
	maxSlackText    = 3000
	maxSlackDetails = 2900 // leaves space for the marks of a code block
	maxTeamsText    = 2000
	maxTeamsDetails = 3000 // bytes
	maxFact         = 200
)

// slackText escapes the characters that Slack reads as markup.
var slackText = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// slackMessage returns the body for an incoming webhook of Slack: a text for notifications,
// and blocks that show the event.
func slackMessage(e *eventhook.Event) []byte {
	type text struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	type block struct {
		Type     string `json:"type"`
		Text     *text  `json:"text,omitempty"`
		Elements []text `json:"elements,omitempty"`
	}
	markdown := func(s string) *text { return &text{"mrkdwn", s} }
	title, summary := summaryOf(e)
	blocks := []block{{Type: "header", Text: &text{"plain_text", shortened(title, maxSlackHeader)}}}
	notice := title
	if summary != "" {
		notice = title + ": " + summary
		blocks = append(blocks, block{Type: "section", Text: markdown(escapedTo(summary, maxSlackText))})
	}
	if details := detailsOf(e); details != "" {
		blocks = append(blocks, block{Type: "section",
			Text: markdown("```" + escapedTo(strings.ReplaceAll(details, "```", "'''"), maxSlackDetails) + "```")})
	}
	var footer []string
	for _, f := range factsOf(e) {
		footer = append(footer, f.Title+": "+slackText.Replace(f.Value))
	}
	blocks = append(blocks, block{Type: "context", Elements: []text{*markdown(strings.Join(footer, " | "))}})
	return encode(struct {
		Text   string  `json:"text"`
		Blocks []block `json:"blocks"`
	}{escapedTo(notice, maxSlackText), blocks})
}

// escapedTo escapes a text for Slack and shortens it so that the result has at most n
// characters and no incomplete escape sequence.
func escapedTo(s string, n int) string {
	s = shortened(s, n) // the loop reads only this part
	for limit := n; ; limit -= max(1, limit/8) {
		if escaped := slackText.Replace(shortened(s, limit)); utf8.RuneCountInString(escaped) <= n {
			return escaped
		}
	}
}

// teamsText breaks links of Markdown with an invisible space, since the text of a link could
// hide its destination.
func teamsText(s string) string { return strings.ReplaceAll(s, "](", "]\u200B(") }

// teamsMessage returns the body for a webhook of Workflows in Teams: a message with an
// Adaptive Card.
func teamsMessage(e *eventhook.Event) []byte {
	type element struct {
		Type     string `json:"type"`
		Text     string `json:"text,omitempty"`
		Wrap     bool   `json:"wrap,omitempty"`
		Size     string `json:"size,omitempty"`
		Weight   string `json:"weight,omitempty"`
		FontType string `json:"fontType,omitempty"`
		Facts    []fact `json:"facts,omitempty"`
	}
	type card struct {
		Schema  string    `json:"$schema"`
		Type    string    `json:"type"`
		Version string    `json:"version"`
		Body    []element `json:"body"`
	}
	type attachment struct {
		ContentType string  `json:"contentType"`
		ContentURL  *string `json:"contentUrl"`
		Content     card    `json:"content"`
	}
	title, summary := summaryOf(e)
	facts := factsOf(e)
	for i := range facts {
		facts[i].Value = teamsText(facts[i].Value)
	}
	body := []element{{Type: "TextBlock", Text: teamsText(shortened(title, maxFact)), Wrap: true, Size: "Medium", Weight: "Bolder"}}
	if summary != "" {
		body = append(body, element{Type: "TextBlock", Text: teamsText(shortened(summary, maxTeamsText)), Wrap: true})
	}
	body = append(body, element{Type: "FactSet", Facts: facts})
	if details := detailsOf(e); details != "" {
		body = append(body, element{Type: "TextBlock", Text: teamsText(shortenedBytes(details, maxTeamsDetails)), Wrap: true,
			FontType: "Monospace"})
	}
	return encode(struct {
		Type        string       `json:"type"`
		Attachments []attachment `json:"attachments"`
	}{"message", []attachment{{ContentType: "application/vnd.microsoft.card.adaptive",
		Content: card{"http://adaptivecards.io/schemas/adaptive-card.json", "AdaptiveCard", "1.4", body}}}})
}

// fact is a name and a value that a message shows.
type fact struct {
	Title string `json:"title"`
	Value string `json:"value"`
}

// factsOf returns the members of the envelope that identify the event to a reader.
func factsOf(e *eventhook.Event) (facts []fact) {
	envelope := envelopeOf(e)
	for _, f := range []fact{
		{"Source", envelope.Source}, {"Scope", textOf(envelope.Scope)}, {"Category", envelope.Category}, {"Correlation", e.CorrelationID},
		{"Time", e.ID.Time().Format("2006-01-02 15:04:05 UTC")}, {"Event", e.ID.String()},
	} {
		if f.Value != "" {
			facts = append(facts, fact{f.Title, shortened(f.Value, maxFact)})
		}
	}
	return facts
}

// messageMembers are the members of the data that hold a text for readers, the preferred
// one first.
type messageMembers struct {
	Summary textMember `json:"summary"`
	Message textMember `json:"message"`
	Text    textMember `json:"text"`
	Title   textMember `json:"title"`
}

// textMember is a member of the data that must be a string. It is "" for any other value, which
// is not decoded: it may be large.
type textMember string

// UnmarshalJSON implements json.Unmarshaler.
func (m *textMember) UnmarshalJSON(raw []byte) error {
	if *m = ""; raw[0] != '"' {
		return nil
	}
	return json.Unmarshal(raw, (*string)(m))
}

// summaryOf returns the type of an event as a title, and the text for readers that its data
// has, "" without one.
func summaryOf(e *eventhook.Event) (title, summary string) {
	var data messageMembers
	_ = json.Unmarshal(e.Body, &data) // data that is not an object has no text
	for _, member := range []textMember{data.Summary, data.Message, data.Text, data.Title} {
		if text := strings.TrimSpace(string(member)); text != "" {
			return e.EventType, text
		}
	}
	return e.EventType, ""
}

// detailsOf returns the data of an event as indented JSON, "" without data. It does not indent
// large data, nor deep data, of which the indentation would be many times as large.
func detailsOf(e *eventhook.Event) string {
	if isNull(e.Body) {
		return ""
	}
	const enough, maxIndented = 32 << 10, 32 // bytes, more than any message shows; nested values
	var b bytes.Buffer
	if len(e.Body) > enough || payload.IsDeeper(e.Body, maxIndented) || json.Indent(&b, e.Body, "", "  ") != nil {
		return strings.ToValidUTF8(string(e.Body[:min(len(e.Body), enough)]), "\uFFFD")
	}
	return b.String()
}

// shortened returns the first n characters of a text, with an ellipsis in place of the last
// one if the text is longer. It does not read the rest of a long text.
func shortened(s string, n int) string {
	count, last := 0, 0
	for i := range s {
		if count++; count == n {
			last = i
		}
		if count > n {
			return s[:last] + "…"
		}
	}
	return s
}

// shortenedBytes is shortened for a number of bytes.
func shortenedBytes(s string, n int) string {
	return strings.ToValidUTF8(eventhook.TruncateWithEllipsis(s, n), "\uFFFD")
}

// encode returns a value of this package as JSON, which cannot fail.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // the products limit the size of bodies
	if err := e.Encode(v); err != nil {
		panic(err)
	}
	return bytes.TrimSpace(b.Bytes())
}
