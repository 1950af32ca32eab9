package console

import (
	"bytes"
	"encoding/hex"
	"html/template"
	"io"
	"mime"
	"net/http"
	"slices"
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
	Tab     string // tree, raw or headers
	Tabs    []payloadTab
	Tree    template.HTML // of the tab tree; "" if the body has none
	IsLarge bool          // the body is too large for a tree
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

var payloadTabs = []string{"tree", "raw", "headers"}

// payloadTab returns the tab in the URL; "" for the tree, or the raw form of a body without one.
func (r *request) payloadTab() string {
	if tab := r.URL.Query().Get("payload"); slices.Contains(payloadTabs, tab) {
		return tab
	}
	return ""
}

// treeBytes returns the size of the largest body that the page reads as JSON: 0 without a tree.
func (r *request) treeBytes() *int64 {
	if tab := r.payloadTab(); web.IsForPart(r.Request) || tab != "" && tab != "tree" {
		return new(int64(0))
	}
	return new(int64(shownPayload))
}

// readPayload fills the payload and the curl command.
func readPayload(r *request, s *story) error {
	exact, err := exactBody(r, s)
	p := &s.Payload
	p.IsGone, p.Headers = client.StatusOf(err) == http.StatusNotFound, sortedHeaders(s.Headers)
	if err != nil && !refused(err) {
		return err
	}
	p.choose(r, s, exact)
	if err == nil {
		s.Curl = curlOf(s, exact)
	}
	return nil
}

// exactBody returns the bytes that the page needs: all for a short body, the first ones for a long
// one.
func exactBody(r *request, s *story) ([]byte, error) {
	most := int64(shownPayload + 1)
	response, err := r.api.GetEventPayload(r.Context(), r.tenant, s.ID, client.GetEventPayloadParams{MaxBytes: &most})
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	return io.ReadAll(io.LimitReader(response.Body, most))
}

// choose sets the tabs, and the content of the current one.
func (p *payloadView) choose(r *request, s *story, exact []byte) {
	if p.Tab = r.payloadTab(); p.Tab == "" || p.Tab == "tree" {
		p.grow(s, exact)
	}
	if p.Tab == "" {
		p.Tab = "tree"
		if p.Tree == "" {
			p.Tab = "raw"
		}
	}
	if p.Tab == "raw" {
		p.show(exact)
	}
	for _, name := range payloadTabs {
		p.Tabs = append(p.Tabs, payloadTab{name, r.storyLink("payload", name) + "#payload", name == p.Tab})
	}
}

// grow sets the tree of a body that is an object or a list as JSON. A body that the API left out has
// a tree of its beginning.
func (p *payloadView) grow(s *story, exact []byte) {
	if p.IsLarge = s.BodyLeftOut != nil && *s.BodyLeftOut; p.IsLarge {
		p.Tree = web.TreeOfStart(exact)
	} else if body := bytes.TrimSpace(s.Body); len(body) > 0 && (body[0] == '{' || body[0] == '[') {
		p.Tree = web.Tree(body)
	}
}

// show sets the text of the tab raw.
func (p *payloadView) show(exact []byte) {
	p.IsCut = len(exact) > shownPayload
	if p.IsCut {
		exact = web.WholeRunes(exact[:shownPayload])
	}
	if !isText(exact) {
		p.IsBinary, p.IsCut = true, p.IsCut || len(exact) > shownBinary
		p.Text = hex.Dump(exact[:min(len(exact), shownBinary)])
		return
	}
	text, isCut := web.Indent(exact, web.TextLimit)
	p.Text, p.IsCut = text, p.IsCut || isCut
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

// payloadFile sets the headers of a body that is sent as a file, which no browser interprets.
func payloadFile(w http.ResponseWriter, id string, of http.Header) io.Writer {
	name := "event-" + strings.Map(fileRune, id) + extensionOf(of.Get("Content-Type"))
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Disposition", `attachment; filename="`+name+`"`)
	return w
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
