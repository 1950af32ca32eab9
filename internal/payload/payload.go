// Package payload looks into what a webhook carried: the JSON view of its
// body, its CloudEvent, and paths into these and the headers. It parses lazily,
// at most once, and never changes the bytes. It does no IO and keeps nothing.
package payload

import (
	"bytes"
	"encoding/json"
	"iter"
	"mime"
	"net/textproto"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/eventhook/eventhook/internal/meter"
)

// Header reads headers by name, in any case; "" if absent. http.Header is one.
type Header interface{ Get(name string) string }

// HeaderBlock is an HTTP/1.1 header block, as events are stored with.
type HeaderBlock []byte

// Get implements Header: the first line with the name.
func (b HeaderBlock) Get(name string) string {
	for rest := []byte(b); len(rest) > 0; {
		line, more, _ := bytes.Cut(rest, []byte("\r\n"))
		rest = more
		if len(line) > len(name) && line[len(name)] == ':' && strings.EqualFold(string(line[:len(name)]), name) {
			return textproto.TrimString(string(line[len(name)+1:]))
		}
	}
	return ""
}

// All are the lines of the block: names as they were sent, and values.
func (b HeaderBlock) All() iter.Seq2[string, string] {
	return func(yield func(name, value string) bool) {
		for rest := []byte(b); len(rest) > 0; {
			line, more, _ := bytes.Cut(rest, []byte("\r\n"))
			rest = more
			name, value, ok := strings.Cut(string(line), ":")
			if ok && name != "" && !yield(name, textproto.TrimString(value)) {
				return
			}
		}
	}
}

// View is one webhook, looked into. Not safe for concurrent use.
type View struct {
	*webhook
	transformed json.RawMessage
}

// webhook is what a view and those that Transform makes of it share.
type webhook struct {
	meter        *meter.Meter // of what looks into it; nil: not counted
	header       Header
	contentType  string
	body         []byte
	decoded      []byte // body without its content encoding
	json         []byte
	rendered     []byte
	cloudEvent   []byte
	isDecoded    bool
	isParsed     bool
	isCloudKnown bool
	hash         string                  // of the body, once it was asked for
	known        map[string]gjson.Result // by the texts of paths: what was looked up in a large body
}

// New returns a view; it parses nothing yet. The meter counts the bytes that
// are read each time something is looked up. When it stops, the view finds
// nothing more: the caller has to ask the meter.
func New(m *meter.Meter, header Header, contentType string, body []byte) *View {
	v := &struct {
		View
		of webhook
	}{of: webhook{meter: m, header: header, contentType: contentType, body: body}}
	v.webhook = &v.of
	return &v.View
}

// Header is a header's value, "" if absent.
func (v *View) Header(name string) string { return v.header.Get(name) }

// JSON is the JSON view of the body, nil if it has none: JSON itself, XML, a
// form or multipart form as an object of its fields (files as name, size and
// type). Bytes that are valid JSON are JSON whatever the content type says:
// that header is seldom signed, and a captured request must not lose its id by
// another one. A body that is malformed, or beyond the bounds of its kind, has
// no view. A body in a content encoding is decoded before.
func (v *View) JSON() json.RawMessage {
	if !v.isParsed {
		v.isParsed = true
		content := v.Content()
		if v.meter == nil || v.meter.UseTime(parsingTime(v.contentType, len(content))) == nil {
			v.json, _ = toJSON(v.contentType, content)
		}
	}
	return v.json
}

// parsingTime is about how long it takes to make a view, which is done once. It
// is taken from the tenant's share, but not from the limit of an evaluation: the
// size of bodies bounds it.
func parsingTime(contentType string, bytes int) time.Duration {
	perByte := 3 * time.Nanosecond
	switch media := mediaType(contentType); {
	case isXML(media):
		perByte = 30 * time.Nanosecond
	case media == formMedia || media == "multipart/form-data":
		perByte = 6 * time.Nanosecond
	}
	return time.Duration(bytes) * perByte
}

const formMedia = "application/x-www-form-urlencoded"

// toJSON makes the view, or says why there is none.
func toJSON(contentType string, body []byte) ([]byte, error) {
	view, notJSON := checkedJSON(body)
	if notJSON == nil {
		return view, nil
	}
	media, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		media = mediaType(contentType)
	}
	switch {
	case media == formMedia:
		return formJSON(body, params["charset"])
	case media == "multipart/form-data":
		return multipartJSON(body, params["boundary"])
	case media == "" || media == "text/plain" || media == "application/octet-stream" || IsJSON(media):
		return nil, notJSON
	case isXML(media):
		return xmlJSON(body, params["charset"])
	}
	return nil, errMedia
}

// mediaType is a content type without its parameters, be they right or wrong,
// in lower case.
func mediaType(contentType string) string {
	media, _, _ := strings.Cut(contentType, ";")
	return strings.ToLower(strings.TrimSpace(media))
}

// IsJSON reports whether a content type says that a body is JSON.
func IsJSON(contentType string) bool {
	return contentType == "application/json" || strings.HasSuffix(mediaType(contentType), "json")
}

// IsXML reports whether a content type says that a body is XML.
func IsXML(contentType string) bool { return isXML(mediaType(contentType)) }

func isXML(media string) bool {
	return media == "application/xml" || media == "text/xml" || strings.HasSuffix(media, "+xml")
}

func marshal(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	return b
}

// Transform is the same webhook of which targets get something else: Render
// is the given JSON, and paths lead into the webhook as before. What one of
// the two has parsed, the other has, too.
func (v *View) WithTransformed(to json.RawMessage) *View {
	return &View{webhook: v.webhook, transformed: to}
}

// Transformed is what Transform was given, else nil.
func (v *View) Transformed() json.RawMessage { return v.transformed }

// Render is the body as one JSON value, whatever it is: its JSON view, else
// its text as a string, else {"base64": …}; or what it was transformed to. It
// is what workers get as input.
func (v *View) Render() json.RawMessage {
	if v.transformed != nil {
		return v.transformed
	}
	if v.rendered == nil {
		v.rendered = v.render()
	}
	return v.rendered
}

func (v *View) render() []byte {
	if view := v.JSON(); view != nil {
		return view
	}
	if content := v.Content(); len(content) == 0 || v.meter.UseBytes(2*len(content)) != nil {
		return []byte("null")
	}
	if text, ok := textOf(v.contentType, v.Content()); ok {
		return AppendJSONString(nil, text)
	}
	return marshal(map[string][]byte{"base64": v.Content()})
}

// textOf is a body as text: UTF-8, or what its content type says it is.
func textOf(contentType string, body []byte) (string, bool) {
	if utf8.Valid(body) {
		return string(body), true
	}
	_, params, err := mime.ParseMediaType(contentType)
	if err != nil || params["charset"] == "" {
		return "", false
	}
	text, err := decode(params["charset"], body)
	return string(text), err == nil && utf8.Valid(text)
}

// IsText reports whether a body can be shown as text.
func IsText(body []byte) bool { return utf8.Valid(body) }
