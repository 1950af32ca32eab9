package console

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/web"
)

// Limits of a payload in a page. The file has all bytes.
const (
	shownPayload = 64 << 10
	shownBinary  = 512
	copiedBody   = 32 << 10 // of a curl command
)

// payloadView is the body or the headers of an event, as the tab in the URL shows them.
type payloadView struct {
	Tab  string // tree, raw or headers
	Tabs []payloadTab
	// Body is the body as JSON, for the tree; nil if it has no such form.
	Body []byte
	// Text is the text of the tab raw, indented if it is JSON.
	Text     string
	IsBinary bool // Text is a hexadecimal dump
	IsCut    bool // Text is the first part of the body
	IsGone   bool // the body is past its retention
	Headers  []header
}

type payloadTab struct {
	Name, Href string
	IsCurrent  bool
}

type header struct{ Name, Value string }

// readPayload fills the payload and the curl command. raw is the API's answer for the event, which
// keeps the order of the members of the body.
func readPayload(r *request, s *story, raw []byte) error {
	var body struct {
		Body json.RawMessage `json:"body"`
	}
	if err := json.Unmarshal(raw, &body); err != nil {
		return err
	}
	p := &s.Payload
	p.Headers = sortedHeaders(s.Headers)
	if text := bytes.TrimSpace(body.Body); len(text) > 0 && (text[0] == '{' || text[0] == '[') {
		p.Body = text
	}
	p.choose(r)
	exact, err := exactBody(r, s)
	switch {
	case client.StatusOf(err) == http.StatusNotFound:
		p.IsGone = true
	case refused(err):
		return nil
	case err != nil:
		return err
	}
	p.show(exact)
	if !p.IsGone {
		s.Curl = curlOf(s, exact)
	}
	return nil
}

// exactBody returns the bytes that the page needs: all for a short body, the first ones for a long
// one.
func exactBody(r *request, s *story) ([]byte, error) {
	response, err := r.api.GetEventPayload(r.Context(), r.tenant, s.ID)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	return io.ReadAll(io.LimitReader(response.Body, shownPayload+1))
}

// choose sets the tabs. Without a tab in the URL, the tree is shown if there is one.
func (p *payloadView) choose(r *request) {
	p.Tab = r.URL.Query().Get("payload")
	if p.Tab != "tree" && p.Tab != "raw" && p.Tab != "headers" {
		p.Tab = "raw"
		if p.Body != nil {
			p.Tab = "tree"
		}
	}
	for _, name := range []string{"tree", "raw", "headers"} {
		p.Tabs = append(p.Tabs, payloadTab{name, r.storyLink("payload", name) + "#payload", name == p.Tab})
	}
}

// show sets the text of the tab raw.
func (p *payloadView) show(exact []byte) {
	p.IsCut = len(exact) > shownPayload
	if p.IsCut {
		exact = wholeCharacters(exact[:shownPayload])
	}
	if !isText(exact) {
		p.IsBinary, p.IsCut = true, p.IsCut || len(exact) > shownBinary
		p.Text = hex.Dump(exact[:min(len(exact), shownBinary)])
		return
	}
	p.Text = web.Pretty(exact)
}

// wholeCharacters returns a cut text without the beginning of a character at its end.
func wholeCharacters(b []byte) []byte {
	for i := 1; i < utf8.UTFMax && i <= len(b); i++ {
		if last := b[len(b)-i:]; utf8.RuneStart(last[0]) && !utf8.FullRune(last) {
			return b[:len(b)-i]
		}
	}
	return b
}

// isText reports whether bytes are UTF-8 without control characters other than line breaks and tabs.
func isText(b []byte) bool {
	return utf8.Valid(b) && !bytes.ContainsFunc(b, isControl)
}

// isControl reports whether a terminal would interpret a character.
func isControl(c rune) bool {
	const first, last = 0x7f, 0x9f // DEL and C1
	return c < ' ' && c != '\n' && c != '\r' && c != '\t' || c >= first && c <= last
}

func sortedHeaders(headers map[string]string) (sorted []header) {
	for name, value := range headers {
		sorted = append(sorted, header{name, value})
	}
	sort.Slice(sorted, func(i, j int) bool { return sorted[i].Name < sorted[j].Name })
	return sorted
}

// writePayload sends a body as a file that no browser interprets.
func writePayload(w http.ResponseWriter, id string, response *http.Response) error {
	defer func() { _ = response.Body.Close() }()
	name := "event-" + strings.Map(fileRune, id) + extensionOf(response.Header.Get("Content-Type"))
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Disposition", `attachment; filename="`+name+`"`)
	_, _ = io.Copy(w, response.Body) // the browser may have left
	return nil
}

func fileRune(c rune) rune {
	if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' {
		return c
	}
	return -1
}

// extensionOf returns the extension of a file with a media type; .bin for types without a usual one.
func extensionOf(contentType string) string {
	media, _, _ := mime.ParseMediaType(contentType) // "" for an invalid type
	switch {
	case media == "application/json" || strings.HasSuffix(media, "+json"):
		return ".json"
	case media == "application/xml" || media == "text/xml" || strings.HasSuffix(media, "+xml"):
		return ".xml"
	case strings.HasPrefix(media, "text/"):
		return ".txt"
	}
	return ".bin"
}
