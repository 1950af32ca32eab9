package verify

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/eventhook/eventhook"
)

// message is the template of a signed text, with these placeholders:
//
//	{body}            the raw bytes of the body; at most once
//	{timestamp}       the timestamp as it was sent
//	{method}          the method of the request
//	{url}             the registered URL, with the query
//	{url_decoded}     the URL with the escapes of :/?@!$'()*,; decoded (HubSpot, request validation v3)
//	{path_encoded}    the URL's path and query, encoded a second time (Contentful)
//	{crc32}           CRC-32 (IEEE) of the body in decimal (PayPal)
//	{header.<name>}   a header that must be sent exactly once
//	{headers.<name>}  the headers that this header lists, as name:value, sorted, joined by ; (Contentful)
//	{field.<path>}    a field of the body, empty if absent; | separates alternative paths
//	{{                a literal {
type message struct {
	before, after []part // the parts before and after the body
	hasBody       bool
	anyURL        bool // the URL can contain any character, because form fields are appended to it
}

var (
	errOddHeader = &Error{ReasonMalformed, "a signed header is too long for an id or contains a bracket or quote"}
	errOddURL    = &Error{ReasonMalformed, "the signed URL contains a brace, bracket, quote or space"}
	errOddBody   = &Error{ReasonMalformed, "the start of the body cannot be told apart from the signed text before it"}
)

// checkBoundary refuses a request if bytes could be moved between the body and the
// text before it without changing the signed text: a timestamp ends with a digit,
// and a URL with any character. Providers with such templates send JSON.
func (m message) checkBoundary(r *Request) *Error {
	if m.has(url) && !m.anyURL && strings.ContainsAny(r.URL, "{}\"<> ") {
		return errOddURL
	}
	if !m.hasBody || len(m.before) == 0 || len(r.Body) == 0 {
		return nil
	}
	first := r.Body[0]
	switch m.before[len(m.before)-1].kind {
	case timestamp:
		if '0' <= first && first <= '9' {
			return errOddBody
		}
	case url, urlDecoded:
		if !isBracketed(first, r.Body) {
			return errOddBody
		}
	default:
	}
	return nil
}

// isBracketed reports whether a body begins and ends like a JSON object or array.
func isBracketed(first byte, body []byte) bool {
	trimmed := bytes.TrimRight(body, " \t\r\n")
	if len(trimmed) == 0 {
		return false
	}
	last := trimmed[len(trimmed)-1]
	return (first == '{' && last == '}') || (first == '[' && last == ']')
}

// isID reports whether a header's value can be an id or a timestamp, and cannot
// contain a part of a JSON body.
func isID(s string) bool {
	const maxSize = 256
	return len(s) <= maxSize && !strings.ContainsAny(s, "{}[]\"")
}

type part struct {
	kind placeholder
	text string // a literal's text, a header's name, or a field's path
	path fieldPath
	at   alternatives // the place of a field in the fieldSet
	// requiredNames are the header names, in lower case, that a headerList must
	// contain.
	requiredNames     []string
	missing, repeated *Error // the header is absent, or sent more than once
}

type placeholder int

const (
	literal placeholder = iota
	timestamp
	method
	url
	urlDecoded
	urlPath
	crc
	header
	headerList
	field
)

var placeholders = map[string]placeholder{
	"timestamp": timestamp, "method": method, "url": url, "url_decoded": urlDecoded, "path_encoded": urlPath, "crc32": crc,
}

// parseMessage parses a template. wrong describes a fault of the template, "" if
// it is valid.
func parseMessage(template string) (m message, wrong string) {
	add := func(p part) {
		list := &m.before
		if m.hasBody {
			list = &m.after
		}
		*list = append(*list, p)
	}
	for template != "" {
		text, rest, found := strings.Cut(template, "{")
		if text != "" {
			add(part{text: text})
		}
		if !found {
			break
		}
		if brace, ok := strings.CutPrefix(rest, "{"); ok {
			add(part{text: "{"})
			template = brace
			continue
		}
		name, more, ok := strings.Cut(rest, "}")
		if !ok {
			return m, "contains { without }; write {{ for a literal brace"
		}
		template = more
		if name == "body" {
			if m.hasBody {
				return m, "contains {body} twice"
			}
			m.hasBody = true
			continue
		}
		p, ok := parsePlaceholder(name)
		if !ok {
			return m, "contains {" + name + "}, want {body}, {timestamp}, {method}, {url}, {url_decoded}, {path_encoded}, {crc32}, {header.<name>}, {headers.<name>} or {field.<path>}"
		}
		add(p)
	}
	return m, ""
}

func parsePlaceholder(name string) (part, bool) {
	if kind, ok := placeholders[name]; ok {
		return part{kind: kind, text: name, missing: refusef(ReasonMalformed, "the signature covers the URL, which is unknown")}, true
	}
	kind, rest, _ := strings.Cut(name, ".")
	switch {
	case kind == "header" && IsToken(rest):
		return headerPart(header, rest), true
	case kind == "headers" && IsToken(rest):
		p := headerPart(headerList, rest)
		p.requiredNames = []string{strings.ToLower(rest)}
		return p, true
	case kind == "field" && isFieldPath(rest):
		return part{kind: field, text: rest, path: parseFieldPath(rest)}, true
	}
	return part{}, false
}

func headerPart(kind placeholder, name string) part {
	return part{kind: kind, text: http.CanonicalHeaderKey(name),
		missing: missingHeader(name), repeated: refusef(ReasonMalformed, "%s is sent more than once", name)}
}

// has reports whether the template has a placeholder of the kind.
func (m message) has(kind placeholder) bool {
	is := func(p part) bool { return p.kind == kind }
	return slices.ContainsFunc(m.before, is) || slices.ContainsFunc(m.after, is)
}

// coversBody reports whether different bodies have different messages. A CRC-32
// does not ensure this: another body with the same CRC-32 can be constructed.
func (m message) coversBody() bool { return m.hasBody }

// requireListed makes header lists without the name invalid.
func (m message) requireListed(name string) {
	for _, parts := range [][]part{m.before, m.after} {
		for i := range parts {
			if p := &parts[i]; p.kind == headerList {
				p.requiredNames = append(p.requiredNames, strings.ToLower(name))
			}
		}
	}
}

// locate adds the fields of the template to s.
func (m message) locate(s *fieldSet) {
	for _, parts := range [][]part{m.before, m.after} {
		for i := range parts {
			if p := &parts[i]; p.kind == field {
				p.at = s.addAll(p.path)
			}
		}
	}
}

var errSignedLarge = &Error{ReasonMalformed, fmt.Sprintf("the signed text besides the body is larger than the body plus %d bytes", maxExtraSigned)}

// compose writes the signed text before and after the body to w. stamp is the
// timestamp as it was sent; w.found has the fields for {field.…}. The text besides
// the body is limited to the size of the body plus maxExtraSigned, for templates that
// repeat placeholders.
func (m message) compose(w *workspace, r *Request, stamp string) *Error {
	w.before, w.after, w.hasBody, w.hasCRC = w.before[:0], w.after[:0], m.hasBody, false
	if err := m.checkBoundary(r); err != nil {
		return err
	}
	limit := len(r.Body) + maxExtraSigned
	for i := range m.before {
		var err *Error
		if w.before, err = m.before[i].append(w.before, w, r, stamp); err != nil {
			return err
		}
		if len(w.before) > limit {
			return errSignedLarge
		}
	}
	for i := range m.after {
		var err *Error
		if w.after, err = m.after[i].append(w.after, w, r, stamp); err != nil {
			return err
		}
		if len(w.before)+len(w.after) > limit {
			return errSignedLarge
		}
	}
	return nil
}

func (p *part) append(b []byte, w *workspace, r *Request, stamp string) ([]byte, *Error) {
	switch p.kind {
	case literal:
		return append(b, p.text...), nil
	case timestamp:
		return append(b, stamp...), nil
	case method:
		return append(b, r.Method...), nil
	case url, urlDecoded, urlPath:
		return p.appendURL(b, r)
	case crc:
		if !w.hasCRC {
			w.crc, w.hasCRC = crc32.ChecksumIEEE(r.Body), true
		}
		return strconv.AppendUint(b, uint64(w.crc), 10), nil
	case field:
		text, err := p.at.text(w.found)
		return append(b, text...), err
	default: // header, headerList
	}
	values := r.Header[p.text]
	switch {
	case len(values) == 0:
		return b, p.missing
	case len(values) > 1:
		return b, p.repeated
	case p.kind == header && !isID(values[0]):
		return b, errOddHeader
	case p.kind == header:
		return append(b, values[0]...), nil
	}
	return p.appendHeaderList(b, r, values[0])
}

func (p *part) appendURL(b []byte, r *Request) ([]byte, *Error) {
	if r.URL == "" {
		return b, p.missing
	}
	switch p.kind {
	case urlDecoded:
		return append(b, signedEscapes.Replace(r.URL)...), nil
	case urlPath:
		return appendEncodedPath(b, r.URL), nil
	default: // url
		return append(b, r.URL...), nil
	}
}

// signedEscapes decodes the escapes that HubSpot decodes before it signs
// (developers.hubspot.com, "Validating requests", v3).
var signedEscapes = func() *strings.Replacer {
	var pairs []string
	for _, c := range ":/?@!$'()*,;" {
		upper := "%" + strings.ToUpper(strconv.FormatInt(int64(c), 16))
		pairs = append(pairs, upper, string(c), strings.ToLower(upper), string(c))
	}
	return strings.NewReplacer(pairs...)
}()

// appendEncodedPath encodes like Contentful's library: the path with JavaScript's
// encodeURI, the query with Node's querystring.escape and then encodeURI.
func appendEncodedPath(b []byte, raw string) []byte {
	const unreserved = "-_.!~*'()"
	const reserved = ";,/?:@&=+$#"
	_, rest, _ := strings.Cut(raw, "://")
	_, path, _ := strings.Cut(rest, "/")
	path, query, _ := strings.Cut(path, "?")
	b = appendEscaped(append(b, '/'), path, unreserved+reserved, "%")
	if query == "" {
		return b
	}
	return appendEscaped(append(b, '?'), query, unreserved, "%25")
}

func appendEscaped(b []byte, text, keep, percent string) []byte {
	const digits = "0123456789ABCDEF"
	for i := range len(text) {
		c := text[i]
		if '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || strings.IndexByte(keep, c) >= 0 {
			b = append(b, c)
			continue
		}
		b = append(append(b, percent...), digits[c>>4], digits[c&15])
	}
	return b
}

// appendHeaderList appends the listed headers in the form that Contentful signs:
// lower-case name and value, sorted by name. The list itself must be one of them.
// Otherwise an attacker could shorten the list and move a removed header, as text,
// into the value of another signed header.
func (p *part) appendHeaderList(b []byte, r *Request, list string) ([]byte, *Error) {
	const maxHeaders = 50
	var buffer [8]string
	names := buffer[:0]
	for name := range strings.SplitSeq(strings.ToLower(list), ",") {
		names = append(names, trim(name))
	}
	if len(names) > maxHeaders {
		return b, refusef(ReasonMalformed, "more than %d headers are signed", maxHeaders)
	}
	slices.Sort(names)
	for _, name := range p.requiredNames {
		if !slices.Contains(names, name) {
			return b, refusef(ReasonMalformed, "%s does not list %s", p.text, name)
		}
	}
	for i, name := range names {
		values := r.Header[http.CanonicalHeaderKey(name)]
		if len(values) != 1 {
			return b, refusef(ReasonMissingHeader, "a signed header is absent, or sent more than once")
		}
		if i > 0 {
			b = append(b, ';')
		}
		b = append(b, name...)
		b = append(b, ':')
		b = append(b, values[0]...)
	}
	return b, nil
}

// validateSigned parses a template and reports its fault.
func validateSigned(template string, f *eventhook.Faults) message {
	m, wrong := parseMessage(template)
	if wrong != "" {
		f.Add("signed", "%s", wrong)
	}
	return m
}
