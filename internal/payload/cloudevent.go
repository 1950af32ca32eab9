package payload

import (
	"encoding/base64"
	"encoding/json"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"
)

// CloudEvent returns the webhook as a CloudEvent (github.com/cloudevents/spec, version 1.0), or
// nil if the webhook is not a CloudEvent. The result is a JSON object with the attributes as
// strings, and data. It is the same in binary mode (attributes in headers) and structured mode
// (a JSON body). data is the Render of a webhook with this data and content type; it is absent
// if the event has no data. Batches and formats other than JSON are not supported.
func (v *View) CloudEvent() json.RawMessage {
	if !v.isCloudKnown {
		v.isCloudKnown = true
		if v.meter.UseBytes(3*len(v.body)+headerSteps) == nil {
			v.cloudEvent = v.toCloudEvent()
		}
	}
	return v.cloudEvent
}

const (
	formats    = "application/cloudevents" // the prefix of the media types of all formats
	jsonFormat = formats + "+json"
)

// IsStructured reports whether a content type is one of CloudEvents in structured
// or batched mode, in any format.
func IsStructured(contentType string) bool {
	return strings.HasPrefix(mediaType(contentType), formats)
}

func (v *View) toCloudEvent() []byte {
	media := mediaType(v.contentType)
	switch {
	case media == jsonFormat:
		return structuredEvent(gjson.ParseBytes(v.JSON()))
	case strings.HasPrefix(media, formats), v.header.Get("Ce-Specversion") != specVersion:
		return nil
	}
	return v.binaryEvent()
}

const specVersion = "1.0"

// maxAttributes limits the attributes of an event.
const maxAttributes = 1000

// attributes are the attributes of an event by name.
type attributes map[string]string

// add adds an attribute, unless the name exists. Empty attributes and invalid names
// are ignored.
func (a attributes) add(name, value string) {
	_, again := a[name]
	if !again && value != "" && name != "data" && name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789") == "" {
		a[name] = value
	}
}

// with returns the event with data, nil if a required attribute is missing.
func (a attributes) with(data json.RawMessage) []byte {
	if a["specversion"] != specVersion || a["id"] == "" || a["source"] == "" || a["type"] == "" || len(a) > maxAttributes {
		return nil
	}
	b := []byte{'{'}
	for _, name := range slices.Sorted(maps.Keys(a)) {
		b = AppendJSONString(append(AppendJSONString(b, name), ':'), a[name])
		b = append(b, ',')
	}
	if data == nil {
		b[len(b)-1] = '}'
		return b
	}
	return append(append(append(b, `"data":`...), data...), '}')
}

// binaryEvent returns an event whose attributes are headers (HTTP binding, section
// 3.1).
func (v *View) binaryEvent() []byte {
	const prefix = "ce-"
	a := attributes{}
	a.add("datacontenttype", v.contentType)
	for name, value := range linesOf(v.header) {
		if len(name) <= len(prefix) || !strings.EqualFold(name[:len(prefix)], prefix) {
			continue
		}
		name = strings.ToLower(name[len(prefix):])
		text := attributeText(value)
		if !utf8.ValidString(text) {
			return nil
		}
		if name != "datacontenttype" {
			a.add(name, text)
		}
	}
	if len(v.Content()) == 0 {
		return a.with(nil)
	}
	return a.with((&View{webhook: v.webhook}).Render())
}

// linesOf yields the headers. Of repeated http.Header values it yields the first.
func linesOf(h Header) iter.Seq2[string, string] {
	switch h := h.(type) {
	case HeaderBlock:
		return h.All()
	case http.Header:
		return func(yield func(name, value string) bool) {
			for name, values := range h {
				if len(values) > 0 && !yield(name, values[0]) {
					return
				}
			}
		}
	}
	return func(func(string, string) bool) {}
}

// attributeText decodes the quotes and percent-encoding of a header's value (HTTP
// binding, section 3.1.3.2). A value with invalid percent-encoding is not decoded.
func attributeText(value string) string {
	if inner, ok := strings.CutPrefix(value, `"`); ok && strings.HasSuffix(inner, `"`) {
		value = unescaped(strings.TrimSuffix(inner, `"`))
	}
	if text, err := url.PathUnescape(value); err == nil {
		return text
	}
	return value
}

// unescaped removes the backslash escapes of a quoted string (RFC 9110, section
// 5.6.4).
func unescaped(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// structuredEvent returns an event from a JSON body. Of members with the same name
// it uses the first, like paths.
func structuredEvent(body gjson.Result) []byte {
	if !body.IsObject() {
		return nil
	}
	a := attributes{}
	var data, inBase64 gjson.Result
	body.ForEach(func(name, value gjson.Result) bool {
		switch {
		case value.Type == gjson.Null: // null counts as absent
		case name.Str == "data" && !data.Exists():
			data = value
		case name.Str == "data_base64" && !inBase64.Exists():
			inBase64 = value
		case value.Type == gjson.String:
			a.add(name.Str, value.Str)
		case value.Type != gjson.JSON: // a number or boolean
			a.add(name.Str, value.Raw)
		}
		return len(a) <= maxAttributes
	})
	view, ok := dataOf(a["datacontenttype"], data, inBase64)
	if !ok {
		return nil
	}
	return a.with(view)
}

// dataOf returns the data of an event in structured mode like the Render of a body
// (JSON format, section 3.1). Data that is not JSON is a string or base64.
func dataOf(contentType string, data, inBase64 gjson.Result) (view json.RawMessage, ok bool) {
	switch {
	case data.Exists() && (data.Type != gjson.String || contentType == "" || IsJSON(contentType)):
		return json.RawMessage(data.Raw), true
	case data.Exists():
		return New(nil, HeaderBlock(nil), contentType, []byte(data.Str)).Render(), true
	case !inBase64.Exists():
		return nil, true
	}
	bytes, err := base64.StdEncoding.DecodeString(inBase64.Str)
	if err != nil || inBase64.Type != gjson.String {
		return nil, false
	}
	if len(bytes) == 0 {
		return nil, true
	}
	return New(nil, HeaderBlock(nil), contentType, bytes).Render(), true
}
