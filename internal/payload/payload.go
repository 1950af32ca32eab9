// Package payload looks into what a webhook carried: the JSON view of its
// body, and paths into body and headers. It parses lazily, at most once, and
// never changes the bytes. It does no IO and keeps nothing.
package payload

import (
	"bytes"
	"encoding/json"
	"iter"
	"mime"
	"mime/multipart"
	"net/textproto"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"
)

// Header reads headers by name, in any case; "" if absent. http.Header is one.
type Header interface{ Get(name string) string }

// Block is an HTTP/1.1 header block, as events are stored with.
type Block []byte

// Get implements Header: the first line with the name.
func (b Block) Get(name string) string {
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
func (b Block) All() iter.Seq2[string, string] {
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
	header      Header
	contentType string
	body        []byte
	json        []byte
	parsed      bool
	transformed json.RawMessage
}

// New makes a view; it parses nothing yet.
func New(header Header, contentType string, body []byte) *View {
	return &View{header: header, contentType: contentType, body: body}
}

// Header is a header's value, "" if absent.
func (v *View) Header(name string) string { return v.header.Get(name) }

// JSON is the JSON view of the body, nil if it has none: JSON itself, a form
// or multipart form as an object of its fields (files as name, size and type).
// A body of no or of plain text type is JSON if it reads as such.
func (v *View) JSON() json.RawMessage {
	if !v.parsed {
		v.parsed = true
		v.json = toJSON(v.contentType, v.body)
	}
	return v.json
}

func toJSON(contentType string, body []byte) []byte {
	media, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		media = strings.ToLower(strings.TrimSpace(strings.SplitN(contentType, ";", 2)[0]))
	}
	switch {
	case media == "application/x-www-form-urlencoded":
		return formJSON(body)
	case media == "multipart/form-data":
		return multipartJSON(body, params["boundary"])
	case media == "" || media == "text/plain" || media == "application/octet-stream" ||
		strings.HasSuffix(media, "json") || strings.HasSuffix(media, "+json"):
		return checkedJSON(body)
	}
	return nil
}

// checkedJSON returns the body if it is one JSON value of bearable depth.
// Bytes that are not UTF-8 are replaced.
func checkedJSON(body []byte) []byte {
	body = bytes.TrimPrefix(body, []byte("\xef\xbb\xbf"))
	if tooDeep(body) || !gjson.ValidBytes(body) {
		return nil
	}
	if !utf8.Valid(body) {
		body = bytes.ToValidUTF8(body, []byte("\uFFFD"))
	}
	return body
}

// maxDepth is how deep JSON may nest to be looked into. Parsers recurse; a
// body of a million brackets must not take the process down.
const maxDepth = 1000

func tooDeep(body []byte) bool {
	if bytes.Count(body, []byte("["))+bytes.Count(body, []byte("{")) <= maxDepth {
		return false
	}
	depth, inString := 0, false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '[' || c == '{':
			if depth++; depth > maxDepth {
				return true
			}
		case c == ']' || c == '}':
			depth--
		}
	}
	return false
}

func formJSON(body []byte) []byte {
	values, err := url.ParseQuery(string(body))
	if err != nil {
		return nil
	}
	fields := make(map[string]any, len(values))
	for name, vs := range values {
		addField(fields, name, vs)
	}
	return marshal(fields)
}

func addField(fields map[string]any, name string, vs []string) {
	if len(vs) == 1 {
		fields[name] = vs[0]
		return
	}
	fields[name] = vs
}

func multipartJSON(body []byte, boundary string) []byte {
	if boundary == "" {
		return nil
	}
	const inMemory = 32 << 20 // the body is, already
	form, err := multipart.NewReader(bytes.NewReader(body), boundary).ReadForm(inMemory)
	if err != nil {
		return nil
	}
	defer func() { _ = form.RemoveAll() }()
	fields := make(map[string]any, len(form.Value)+len(form.File))
	for name, vs := range form.Value {
		addField(fields, name, vs)
	}
	for name, files := range form.File {
		described := make([]map[string]any, len(files))
		for i, f := range files {
			described[i] = map[string]any{"filename": f.Filename, "size": f.Size, "content_type": f.Header.Get("Content-Type")}
		}
		if len(described) == 1 {
			fields[name] = described[0]
		} else {
			fields[name] = described
		}
	}
	return marshal(fields)
}

func marshal(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	return b
}

// Transform is the same webhook of which targets get something else: Render
// is the given JSON, and paths lead into the webhook as before.
func (v *View) Transform(to json.RawMessage) *View {
	v.JSON() // so that it is parsed once for both
	other := *v
	other.transformed = to
	return &other
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
	if view := v.JSON(); view != nil {
		return view
	}
	if len(v.body) == 0 {
		return json.RawMessage("null")
	}
	if utf8.Valid(v.body) {
		return marshal(string(v.body))
	}
	return marshal(map[string][]byte{"base64": v.body})
}

// IsText reports whether a body can be shown as text.
func IsText(body []byte) bool { return utf8.Valid(body) }
