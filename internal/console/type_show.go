package console

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"github.com/eventhook/eventhook/client"
)

// typePage is the data of the page of an event type.
type typePage struct {
	client.EventType
	SchemaDocument *document
	// Example is the last event of the type; nil if there is none or the person cannot read it.
	Example  *client.Event
	Data     *document // of the example
	HasForm  bool      // a person may publish events of this type
	TestForm form
}

// maxExample limits the body of the example, in bytes.
const maxExample = 64 << 10

func (c *Console) eventType(r *request) (view, error) {
	return c.showType(r, r.formOf(nil, "data", "scope", "idempotency_key"), http.StatusOK)
}

func (c *Console) showType(r *request, f form, status int) (view, error) {
	t, err := r.api.GetEventType(r.Context(), r.tenant, r.PathValue("name"))
	if err != nil {
		return view{}, err
	}
	p := typePage{EventType: t, TestForm: f, HasForm: !t.IsBuiltin && r.can("publish")}
	if t.Schema != nil {
		p.SchemaDocument = documentOf("Schema", plainJSON(t.Schema))
	}
	p.readExample(r)
	if !f.Values.Has("data") {
		f.Values.Set("data", p.testData())
	}
	return view{Title: t.Name, Data: p, Status: status}, nil
}

// readExample reads the last event of the type. The page is complete without it, so that errors
// leave it out.
func (p *typePage) readExample(r *request) {
	limit := int64(1)
	found, err := r.api.ListEvents(r.Context(), r.tenant, client.ListEventsParams{EventType: &p.Name, Limit: &limit})
	if err != nil || len(found.Items) == 0 {
		return
	}
	p.Example = &found.Items[0]
	most := int64(maxExample)
	params := client.GetEventParams{MaxBodyBytes: &most}
	if e, err := r.api.GetEvent(r.Context(), r.tenant, p.Example.ID, params); err == nil {
		p.Data = documentOf("Data", e.Body)
	}
}

// testData returns the data with which the form for a test event begins.
func (p *typePage) testData() string {
	const size = 4 << 10
	if p.Data != nil && len(p.Data.Text) < size {
		return p.Data.Text
	}
	return "{}"
}

// publishTest publishes an event of the type.
func (c *Console) publishTest(r *request) (view, error) {
	if err := r.ParseForm(); err != nil {
		return view{}, err
	}
	f := r.formOf(url.Values{}, "data", "scope", "idempotency_key")
	body := client.EventPublish{EventType: r.PathValue("name"), Data: f.json("data"), IdempotencyKey: f.text("idempotency_key"), Scope: f.textAsJSON("scope")}
	if body.Data == nil && f.isReadable() {
		f.Faults["data"] = "is required; null is a value, too"
	}
	if f.isReadable() {
		made, err := r.api.PublishEvent(r.detached(), r.tenant, client.PublishEventParams{}, body)
		if err == nil {
			return redirect(r.base()+"/events/"+url.PathEscape(made.EventID), noticeOfPublished(made))
		}
		if !f.refuse(err) {
			return view{}, err
		}
	}
	return c.showType(r, f, http.StatusUnprocessableEntity)
}

func noticeOfPublished(made client.EventPublished) string {
	if made.Duplicate != nil && *made.Duplicate {
		return "An event with this idempotency key was published before. This is it; nothing was stored."
	}
	return fmt.Sprintf("The event is published. Deliveries created: %d.", made.Deliveries)
}

// textAsJSON returns the text of a field as a JSON string.
func (f *form) textAsJSON(name string) *json.RawMessage {
	text := f.text(name)
	if text == nil {
		return nil
	}
	raw, _ := json.Marshal(*text) // a string can be encoded
	message := json.RawMessage(raw)
	return &message
}
