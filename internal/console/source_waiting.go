package console

import (
	"net/url"
	"strings"

	"github.com/eventhook/eventhook/client"
)

// segment escapes a name in a path.
func segment(name string) string { return url.PathEscape(name) }

// waiting is the data of the page that waits for the first event of a source.
type waiting struct {
	Source    client.Source
	Guide     guide
	Event     *client.Event     // the newest event; nil while there is none
	Refusal   *client.Rejection // the newest refusal, if it is newer than the event
	Remedy    remedy
	Handshake client.Handshake
	Command   string
	Facts     []fact // of the broker whose messages the source consumes
}

// Consumer is the status of the consumer; "" if the source consumes no messages, or if it is not known.
func (w waiting) Consumer() client.ConsumerStatus {
	if w.Source.Consumer == nil {
		return ""
	}
	return w.Source.Consumer.Status
}

// IsRefreshed is true while the page waits for an event, or for the consumer.
func (w waiting) IsRefreshed() bool {
	return w.Event == nil || w.Source.Consume != nil && w.Consumer() != "running"
}

func (c *Console) waitForEvent(r *request) (view, error) {
	source, err := r.api.GetSource(r.Context(), r.tenant, r.PathValue("slug"))
	if err != nil {
		return view{}, err
	}
	data := waiting{Source: source, Command: command(source), Facts: factsOfBroker(source.Consume)}
	if source.Provider != nil {
		data.Guide = guideOf(*source.Provider, *source.Provider)
	}
	one := int64(1)
	events, err := r.api.ListEvents(r.Context(), r.tenant, client.ListEventsParams{Limit: &one, Source: &source.Slug})
	if err != nil {
		return view{}, err
	}
	if len(events.Items) > 0 {
		data.Event = &events.Items[0]
	}
	if data.Refusal, err = r.lastRefusal(source.Slug); err != nil {
		return view{}, err
	}
	if data.Refusal != nil {
		data.Remedy = remedyOf(data.Refusal.Reason)
		if data.Event != nil && !data.Refusal.RejectedAt.After(data.Event.ReceivedAt) {
			data.Refusal = nil
		}
	}
	data.Handshake, err = r.api.GetHandshake(r.Context(), r.tenant, source.Slug)
	return view{Title: "Waiting for " + source.Name, Data: data}, err
}

// command returns a command for a shell that sends a test webhook to a source. Secrets are
// variables of the shell.
func command(s client.Source) string {
	curl := "curl -X POST " + quote(s.IngestURL) + " -H 'Content-Type: application/json' -d '{\"type\":\"test\"}'"
	switch {
	case s.Provider != nil && s.Scheme != nil && *s.Scheme != *s.Provider:
		return "eventhook send " + *s.Provider + " --scheme " + *s.Scheme + " --url " + quote(s.IngestURL) + " --secret-env SECRET"
	case s.Provider != nil:
		return "eventhook send " + *s.Provider + " --url " + quote(s.IngestURL) + " --secret-env SECRET"
	case s.Verifier == nil:
		return curl
	}
	header := "X-Signature"
	if s.Verifier.Header != nil {
		header = *s.Verifier.Header
	}
	switch s.Verifier.Type {
	case "api_key":
		return curl + " -H " + quote(header+": ") + `"$TOKEN"`
	case "basic_auth":
		return curl + ` -u "$USERNAME:$PASSWORD"`
	default:
		return curl
	}
}

// special are the characters for which a shell needs quotes.
const special = " \t\n\"'\\`$&|;<>()[]{}*?!#~^"

// quote returns a text as one word for a shell.
func quote(text string) string {
	if text != "" && !strings.ContainsAny(text, special) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
