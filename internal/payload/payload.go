// Package payload reads the content of a webhook: the JSON view of its body, its CloudEvent,
// and the values at paths into these and the headers. A View parses the body at the first
// lookup, and only once for all lookups. The package never modifies the body and does no I/O. A
// body that cannot be parsed has no view; paths into it have no value, which is not an error.
package payload

import (
	"bytes"
	"cmp"
	"encoding/json"
	"iter"
	"mime"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/eventhook/eventhook/internal/meter"
)

// Header returns headers by their case-insensitive name, "" if absent. http.Header
// implements it.
type Header interface{ Get(name string) string }

// HeaderBlock is an HTTP/1.1 header block, the form in which events store headers. All omits the
// pseudo-header fields.
type HeaderBlock []byte

// Pseudo-header fields of a HeaderBlock. The first two have the names of HTTP/2 (RFC 9113, section
// 8.3.1). No request has a header with such a name.
const (
	MethodField = ":method" // absent for POST
	// PathField has the path suffix and the query of the request: the path below the URL of the
	// source, and after it the query with its question mark. It is absent if both are empty.
	PathField = ":path"
	// VerifiedField says how the request was verified; see Verification. It is absent if that was
	// not recorded.
	VerifiedField = ":verified"
)

// Verification says how a request was verified.
type Verification struct {
	Scheme string // of the provider, such as v1, or the type of the verifier
	Secret int    // the number of the matching secret or public key, from 1; 0 if the scheme has none
	Of     int    // the number of secrets or public keys at that time
}

// Append appends the field VerifiedField to a block.
func (v Verification) Append(b HeaderBlock) HeaderBlock {
	b = append(append(append(b, VerifiedField...), ": "...), v.Scheme...)
	if v.Of > 0 {
		b = append(b, ' ')
		b = strconv.AppendInt(b, int64(v.Secret), 10)
		b = append(b, '/')
		b = strconv.AppendInt(b, int64(v.Of), 10)
	}
	return append(b, "\r\n"...)
}

// Verification returns how the request was verified. ok is false if the block does not tell.
func (b HeaderBlock) Verification() (v Verification, ok bool) {
	text := b.Get(VerifiedField)
	var numbers string
	v.Scheme, numbers, _ = strings.Cut(text, " ")
	secret, of, _ := strings.Cut(numbers, "/")
	v.Secret, _ = strconv.Atoi(secret)
	v.Of, _ = strconv.Atoi(of)
	return v, text != ""
}

// Request returns the method of the request, its path below the URL of the source, and its query
// without the question mark.
func (b HeaderBlock) Request() (method, suffix, query string) {
	suffix, query, _ = strings.Cut(b.Get(PathField), "?")
	return cmp.Or(b.Get(MethodField), http.MethodPost), suffix, query
}

// Get implements Header. It returns the value of the first line with the name.
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

// All yields the lines of the block: names as they were sent, and values.
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

// View reads the content of one webhook. It is not safe for concurrent use.
type View struct {
	*webhook
	transformed json.RawMessage
}

// webhook is the state that a View shares with the Views that WithTransformed
// returns.
type webhook struct {
	meter        *meter.Meter // charged for reads; nil: none
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
	hash         string                  // of the body, once computed
	known        map[string]gjson.Result // values found in a large body, by the text of their path
}

// New returns a View without parsing anything. Each lookup charges the meter for
// the bytes that it reads. When the meter is exhausted, lookups find nothing; the
// caller must check the meter.
func New(m *meter.Meter, header Header, contentType string, body []byte) *View {
	v := &struct {
		View
		of webhook
	}{of: webhook{meter: m, header: header, contentType: contentType, body: body}}
	v.webhook = &v.of
	return &v.View
}

// Header returns a header's value, "" if absent.
func (v *View) Header(name string) string { return v.header.Get(name) }

// JSON returns the JSON view of the body, nil if it has none. JSON is its own view.
// A form or multipart form is an object of its fields, with files as name, size
// and type; XML is an object with its root element. A body in a content encoding
// is decoded first. A body that is malformed or exceeds the limits of its format
// has no view.
//
// Bytes that are valid JSON are read as JSON for every content type: signatures
// rarely cover this header, and a replay with another content type must not lose
// its id.
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

// parsingTime estimates the time to build a view, which happens once. It is charged
// to the tenant's share of CPU time, but not to the limit of an evaluation, because
// the size of bodies limits it.
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

// toJSON returns the view of a body, or the reason why it has none.
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
	return nil, errMediaType
}

// mediaType returns a content type in lower case and without its parameters, which
// can be malformed.
func mediaType(contentType string) string {
	media, _, _ := strings.Cut(contentType, ";")
	return strings.ToLower(strings.TrimSpace(media))
}

// IsJSON reports whether a content type is JSON.
func IsJSON(contentType string) bool {
	return contentType == "application/json" || strings.HasSuffix(mediaType(contentType), "json")
}

// IsXML reports whether a content type is XML.
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

// WithTransformed returns a View of the same webhook whose Render returns to, for
// targets. Paths still read the webhook itself. Both Views share parsed data.
func (v *View) WithTransformed(to json.RawMessage) *View {
	return &View{webhook: v.webhook, transformed: to}
}

// Transformed returns the JSON of WithTransformed, nil without it.
func (v *View) Transformed() json.RawMessage { return v.transformed }

// Render returns the body as one JSON value, the input of workers: the JSON of
// WithTransformed, otherwise the JSON view, otherwise the text as a string,
// otherwise {"base64": …}. An empty body is null.
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

// textOf returns a body as text if it is UTF-8 or in the charset of its content type.
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
