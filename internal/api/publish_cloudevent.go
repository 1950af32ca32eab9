package api

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/payload"
)

// CloudEvent is an event in the JSON format of CloudEvents 1.0, with extensions.
type CloudEvent struct {
	_               struct{}        `json:"-" additionalProperties:"true"`
	SpecVersion     string          `json:"specversion" enum:"1.0" doc:"Version of the CloudEvents specification."`
	ID              string          `json:"id" minLength:"1" doc:"Event id. Source and id together are the idempotency key."`
	Source          string          `json:"source" minLength:"1" format:"uri-reference" doc:"Source of the event."`
	Type            string          `json:"type" minLength:"1" maxLength:"255" example:"payment.succeeded" doc:"Event type."`
	Subject         string          `json:"subject,omitempty" doc:"Scope of the event."`
	Time            *time.Time      `json:"time,omitempty" doc:"Time of the event."`
	DataContentType string          `json:"datacontenttype,omitempty" doc:"Media type of the data."`
	DataSchema      string          `json:"dataschema,omitempty" format:"uri" doc:"URI of the schema of the data."`
	Data            json.RawMessage `json:"data,omitempty" doc:"Any JSON value up to 1 MiB."`
	DataBase64      string          `json:"data_base64,omitempty" doc:"Binary data as base64, instead of data."`
}

const (
	maxAttributes = 100  // of a CloudEvent
	maxSource     = 2048 // bytes
)

// publishCloudEvent publishes one CloudEvent and writes the response.
func (p *publishCall) publishCloudEvent(raw []byte) {
	var x parsedEvent
	var err error
	switch s := (scanner{raw: raw}); {
	case len(raw) > maxSingleBody:
		err = tooLarge("The body", maxSingleBody)
	case !s.skipValue() || !s.isAtEnd():
		err = notJSON(raw)
	case p.ctx.Header("Idempotency-Key") != "":
		err = invalid("header.Idempotency-Key", "must not be set for a CloudEvent: source and id form its idempotency key")
	default:
		x, err = readCloudEvent(raw)
	}
	if err != nil {
		p.writeError(err)
		return
	}
	p.publishSingle(x)
}

// publishCloudEvents publishes a batch of CloudEvents and writes the response.
func (p *publishCall) publishCloudEvents(raw []byte) {
	var faults eventhook.Faults
	s := scanner{raw: raw}
	list, ok := s.batchElements("body", &faults)
	if !ok || !s.isAtEnd() {
		p.writeError(notJSON(raw))
		return
	}
	p.publishBatch(list, faults, "body", readCloudEvent)
}

// readCloudEvent parses a CloudEvent. raw must be JSON.
func readCloudEvent(raw []byte) (parsedEvent, error) {
	if !utf8.Valid(raw) {
		return parsedEvent{}, checkTexts(raw).Err(notValid)
	}
	c := cloudEventReader{}
	if !c.readMembers(raw) {
		return parsedEvent{}, c.faults.Err(notValid)
	}
	x, err := c.mapAttributes()
	if err != nil {
		return x, err
	}
	rules := x.check("")
	for i := range rules {
		rules[i].Location = cmp.Or(attributeByMember[rules[i].Location], rules[i].Location)
	}
	return x, combinedError(c.faults, rules)
}

// attributeByMember maps locations of members of EventPublish to the attributes of
// their values.
var attributeByMember = map[string]string{"body.event_type": "body.type", "body.scope": "body.subject", "body.correlation_id": "body.correlationid"}

// cloudEventReader parses the attributes of a CloudEvent.
type cloudEventReader struct {
	members map[string][]byte // values as JSON, without nulls
	faults  eventhook.Faults
}

// readMembers collects the members of the event. It returns false if raw is not an
// object or has too many members.
func (c *cloudEventReader) readMembers(raw []byte) bool {
	c.members = map[string][]byte{}
	s := scanner{raw: raw}
	if !s.consume('{') {
		c.faults.Add("body", "expected object")
		return false
	}
	seen := map[string]bool{}
	for s.next() == '"' {
		name, _ := s.member()
		value, _ := s.valueBytes()
		known := name.decoded()
		switch {
		case seen[known]:
			c.faults.Add("body."+readable(known), "is given twice")
		case known != "data_base64" && strings.Trim(known, "abcdefghijklmnopqrstuvwxyz0123456789") != "" || known == "":
			c.faults.Add("body."+readable(known), "is not an attribute name: use lower-case letters and digits")
		case string(value) != "null" || known == "data":
			c.members[known] = value
		}
		seen[known] = true
		if len(seen) > maxAttributes {
			c.faults.Add("body", "has more than %d attributes", maxAttributes)
			return false
		}
		s.consume(',')
	}
	return true
}

// takeString removes a member and returns its value, which must be a non-empty
// string.
func (c *cloudEventReader) takeString(name string, isRequired bool) string {
	value, isPresent := c.members[name]
	delete(c.members, name)
	s := scanner{raw: value}
	switch {
	case !isPresent && isRequired:
		c.faults.Add("body."+name, "is required")
		return ""
	case !isPresent:
		return ""
	case s.next() != '"':
		c.faults.Add("body."+name, "expected string")
		return ""
	}
	t, _ := s.string()
	if len(t.raw) == 0 {
		c.faults.Add("body."+name, "must not be empty")
	}
	return t.decoded()
}

// mapAttributes maps the attributes to an event and removes them from members.
func (c *cloudEventReader) mapAttributes() (x parsedEvent, err error) {
	if v := c.takeString("specversion", true); v != "" && v != "1.0" {
		c.faults.Add("body.specversion", "must be 1.0")
	}
	kind, subject := c.members["datacontenttype"], c.members["subject"]
	if text := c.takeString("subject", false); text != "" {
		x.Scope = subject
	}
	x.EventType, x.Source = c.takeString("type", true), c.takeString("source", true)
	x.CorrelationID, x.traceparent = c.takeString("correlationid", false), c.takeString("traceparent", false)
	if isForbidden := func(r rune) bool { return r <= ' ' || r == 0x7f }; strings.ContainsFunc(x.Source, isForbidden) ||
		len(x.Source) > maxSource {
		c.faults.Add("body.source", "must be a URI reference of at most %d bytes", maxSource)
	}
	if x.Data, err = c.takeData(kind); err != nil {
		return x, err
	}
	id := c.members["id"]
	x.IdempotencyKey = eventhook.NormalizeKey(x.Source + " " + c.takeString("id", true))
	if id != nil {
		c.members["id"] = id // also part of the metadata
	}
	x.Metadata = c.metadata()
	return x, nil
}

// takeData removes the data and returns it as JSON.
func (c *cloudEventReader) takeData(kind []byte) (json.RawMessage, error) {
	data, isJSON := c.members["data"]
	_, isBase64 := c.members["data_base64"]
	delete(c.members, "data")
	encoded := c.takeOptionalString("data_base64")
	switch {
	case isJSON && isBase64:
		c.faults.Add("body.data_base64", "must not be given together with data")
	case isBase64:
		decoded, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil {
			c.faults.Add("body.data_base64", "is not base64")
		}
		if data = asJSON(kind, decoded); len(data) > MaxData {
			return nil, tooLarge("body.data_base64", MaxData)
		}
	case !isJSON:
		return json.RawMessage("null"), nil
	case len(data) > MaxData:
		return nil, tooLarge("body.data", MaxData)
	}
	return data, nil
}

// takeOptionalString is takeString for an optional string that may be empty.
func (c *cloudEventReader) takeOptionalString(name string) string {
	if string(c.members[name]) == `""` {
		delete(c.members, name)
		return ""
	}
	return c.takeString(name, false)
}

// asJSON converts binary data to JSON: unchanged if it is JSON, else a string, or an
// object with the base64 if it is not UTF-8. kind is the attribute datacontenttype
// as JSON.
func asJSON(kind, decoded []byte) []byte {
	contentType := scanner{raw: kind}
	isJSON := kind == nil
	if contentType.next() == '"' {
		t, _ := contentType.string()
		isJSON = payload.IsJSON(t.decoded())
	}
	switch {
	case isJSON && json.Valid(decoded) && utf8.Valid(decoded):
		return decoded
	case utf8.Valid(decoded):
		return payload.AppendJSONString(nil, string(decoded))
	}
	return append(base64.StdEncoding.AppendEncode([]byte(`{"base64":"`), decoded), `"}`...)
}

// metadata returns an object of the remaining attributes.
func (c *cloudEventReader) metadata() jsonObject {
	b := []byte{'{'}
	for _, name := range slices.Sorted(maps.Keys(c.members)) {
		value := c.members[name]
		if wrong := checkAttribute(name, value); wrong != "" {
			c.faults.Add("body."+name, "%s", wrong)
			continue
		}
		b = append(append(payload.AppendJSONString(b, name), ':'), value...)
		b = append(b, ',')
	}
	if len(b) == 1 {
		return nil
	}
	b[len(b)-1] = '}'
	return b
}

// checkAttribute returns the fault of the value of an attribute, "" if there is
// none.
func checkAttribute(name string, value []byte) string {
	isText := value[0] == '"'
	switch {
	case !isText && slices.Contains([]string{"time", "datacontenttype", "dataschema"}, name):
		return "expected string"
	case value[0] == '{' || value[0] == '[':
		return "must be a string, a number or a boolean"
	case hasHugeNumber(value):
		return "is a number that is too large"
	case name != "time":
		return ""
	}
	if _, err := time.Parse(`"`+time.RFC3339+`"`, string(value)); err != nil {
		return "must be a time such as 2030-01-31T12:00:00Z"
	}
	return ""
}
