package payload

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/textproto"
	"strings"
	"unsafe"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/tidwall/gjson"

	"github.com/eventhook/eventhook"
)

// Path is a path to a value of a webhook: header.<name>, body.<a.b.0.c>,
// cloudevent.<attribute>, cloudevent.data.<a.b.0.c>, sha256.body, or several of
// these joined with " + ". It is safe for concurrent use.
type Path struct {
	text    string   // the parsed text, for a path that is not joined
	joined  []Path   // or the fields below
	hash    bool     // sha256.body, or
	header  string   // canonical name, or "" for a path into JSON
	inEvent bool     // into the CloudEvent, else into the body
	json    string   // in gjson's syntax, if gjson takes every step literally
	steps   []string // otherwise, the steps
}

// ParsePath parses a path. The error is of KindInvalid.
func ParsePath(s string) (Path, error) {
	if wrong := eventhook.CheckPath(s); wrong != "" {
		return Path{}, &eventhook.Error{Kind: eventhook.KindInvalid, Message: "path " + wrong}
	}
	parts := eventhook.PathParts(s)
	if len(parts) == 1 {
		return parsePart(s), nil
	}
	var p Path
	for _, part := range parts {
		p.joined = append(p.joined, parsePart(part))
	}
	return p, nil
}

func parsePart(s string) Path {
	if s == eventhook.BodyHashPath {
		return Path{text: s, hash: true}
	}
	kind, rest, _ := strings.Cut(s, ".")
	if kind == "header" {
		return Path{text: s, header: textproto.CanonicalMIMEHeaderKey(rest)}
	}
	p, steps := Path{text: s, inEvent: kind == "cloudevent", json: rest}, strings.Split(rest, ".")
	for _, step := range steps {
		if gjson.Escape(step) != step || !isIndexOrName(step) {
			p.json, p.steps = "", steps
		}
	}
	return p
}

// isIndexOrName reports whether a step is a canonical array index or a name that
// is not a number. It returns false for digits that gjson would accept as an index
// although they are not canonical: 007, or a number that overflows.
func isIndexOrName(step string) bool {
	if strings.Trim(step, "0123456789") != "" {
		return true
	}
	return len(step) < 10 && (step == "0" || step[0] != '0')
}

// pathLists caches parsed lists by their texts.
var pathLists, _ = lru.New[string, []Path](cachedPathLists)

const cachedPathLists = 1000

// ParsePaths parses several paths. Equal lists share one result, because most
// sources have the same paths: do not modify it.
func ParsePaths(list []string) ([]Path, error) {
	key := strings.Join(list, "\x00")
	if paths, ok := pathLists.Get(key); ok && len(paths) == len(list) {
		return paths, nil
	}
	paths := make([]Path, len(list))
	for i, s := range list {
		var err error
		if paths[i], err = ParsePath(s); err != nil {
			return nil, err
		}
	}
	pathLists.Add(key, paths)
	return paths, nil
}

// IsZero reports whether p is the zero Path.
func (p Path) IsZero() bool {
	return p.joined == nil && !p.hash && p.header == "" && p.json == "" && p.steps == nil
}

// Headers returns the canonical names of the headers that the path can read,
// including the headers of CloudEvent attributes in binary mode.
func (p Path) Headers() []string {
	if p.header != "" {
		return []string{p.header}
	}
	if p.inEvent {
		attribute, _, _ := strings.Cut(p.json, ".")
		if p.steps != nil {
			attribute = p.steps[0]
		}
		return []string{textproto.CanonicalMIMEHeaderKey("ce-" + attribute)}
	}
	var names []string
	for _, part := range p.joined {
		names = append(names, part.Headers()...)
	}
	return names
}

// Text returns the non-empty string at a path, or the number as it is written. Any
// other value counts as absent. The values of joined paths are separated by dots;
// if one is absent, the whole value is absent.
func (v *View) Text(p Path) (string, bool) {
	switch {
	case p.header != "" && v.meter.Use(headerSteps) != nil:
		return "", false
	case p.joined != nil:
		return v.joinedText(p.joined)
	case p.hash:
		return v.bodyHash()
	case p.header != "":
		s := v.header.Get(p.header)
		return s, s != ""
	}
	switch r := v.At(p); r.Type {
	case gjson.String:
		return strings.Clone(r.Str), r.Str != ""
	case gjson.Number:
		return strings.Clone(r.Raw), true
	default:
		return "", false
	}
}

func (v *View) joinedText(parts []Path) (string, bool) {
	texts := make([]string, len(parts))
	for i, part := range parts {
		var ok bool
		if texts[i], ok = v.Text(part); !ok {
			return "", false
		}
	}
	return strings.Join(texts, "."), true
}

// Raw returns the JSON value at a path. The value of a path that is not into JSON
// is a string.
func (v *View) Raw(p Path) (json.RawMessage, bool) {
	if p.joined != nil || p.hash || p.header != "" {
		s, ok := v.Text(p)
		return marshal(strings.ToValidUTF8(s, "\uFFFD")), ok
	}
	r := v.At(p)
	return json.RawMessage(r.Raw), r.Exists()
}

// At returns the JSON value at a path into the body or the CloudEvent. The result
// does not exist if there is no value, or for other paths. It points into the view
// and keeps it in memory.
func (v *View) At(p Path) gjson.Result {
	if p.joined != nil || p.hash || p.header != "" {
		return gjson.Result{}
	}
	view := v.root(p)
	if r, ok := v.known[p.text]; ok {
		return r
	}
	if len(view) == 0 || v.meter.UseBytes(len(view)) != nil {
		return gjson.Result{}
	}
	text := unsafe.String(unsafe.SliceData(view), len(view)) //nolint:gosec // a Payload never changes
	var r gjson.Result
	if p.steps == nil {
		r = gjson.Get(text, p.json)
	} else {
		r = v.walk(gjson.Parse(text), p.steps)
	}
	if v.IsLarge() {
		v.store(p.text, r)
	}
	return r
}

// root returns the view that a path into JSON starts from.
func (v *View) root(p Path) []byte {
	if p.inEvent {
		return v.CloudEvent()
	}
	return v.JSON()
}

// walk looks up one step at a time, because gjson's escapes work for members of
// objects only: on an array, even an escaped # counts the elements.
func (v *View) walk(r gjson.Result, steps []string) gjson.Result {
	for i, step := range steps {
		if i > 0 && v.meter.UseBytes(len(r.Raw)) != nil {
			return gjson.Result{}
		}
		switch {
		case r.IsObject():
			r = r.Get(gjson.Escape(step))
		case r.IsArray() && isIndexOrName(step) && strings.Trim(step, "0123456789") == "":
			r = r.Get(step)
		default:
			return gjson.Result{}
		}
	}
	return r
}

// bodyHash returns the hexadecimal SHA-256 of the body, computed once.
func (v *View) bodyHash() (string, bool) {
	if v.hash == "" && v.meter.UseBytes(len(v.body)) == nil {
		sum := sha256.Sum256(v.body)
		v.hash = hex.EncodeToString(sum[:])
	}
	return v.hash, v.hash != ""
}

// headerSteps is the cost of a header lookup.
const headerSteps = 100

// FirstText returns the text at the first path that has one. In a large body it
// looks up all paths together.
func (v *View) FirstText(paths []Path) (string, bool) {
	if len(paths) > 1 && v.IsLarge() {
		v.findAll(paths)
	}
	for _, p := range paths {
		if s, ok := v.Text(p); ok {
			return s, true
		}
	}
	return "", false
}
