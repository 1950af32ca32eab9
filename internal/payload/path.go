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

// Path points into a webhook: header.<name>, body.<a.b.0.c>,
// cloudevent.<attribute>, cloudevent.data.<a.b.0.c>, sha256.body, or several of
// these joined. Parse it once, use it often, from any goroutine.
type Path struct {
	text    string   // as it was written, of a path that is not joined
	joined  []Path   // or what follows
	hash    bool     // sha256.body, or
	header  string   // canonical name, or "" for a path into JSON
	inEvent bool     // into the CloudEvent, else into the body
	json    string   // in gjson's syntax, every step taken literally
	steps   []string // instead of json, where gjson would not take them literally
}

// ParsePath reads a path. The error is of KindInvalid.
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

// isIndexOrName tells an array index as it is usually written, or a member
// name that no array takes for an index, from digits that gjson would read
// more generously: 007, or a number that overflows.
func isIndexOrName(step string) bool {
	if strings.Trim(step, "0123456789") != "" {
		return true
	}
	return len(step) < 10 && (step == "0" || step[0] != '0')
}

// lists are those in use, by their texts.
var lists, _ = lru.New[string, []Path](keptLists)

const keptLists = 1000

// ParsePaths reads several paths. Who reads the same shares the list, as most
// sources do: it must not be changed.
func ParsePaths(list []string) ([]Path, error) {
	key := strings.Join(list, "\x00")
	if paths, ok := lists.Get(key); ok && len(paths) == len(list) {
		return paths, nil
	}
	paths := make([]Path, len(list))
	for i, s := range list {
		var err error
		if paths[i], err = ParsePath(s); err != nil {
			return nil, err
		}
	}
	lists.Add(key, paths)
	return paths, nil
}

// IsZero reports whether the path was never parsed.
func (p Path) IsZero() bool {
	return p.joined == nil && !p.hash && p.header == "" && p.json == "" && p.steps == nil
}

// Headers are the canonical names of the headers that the path reads, or would
// read in a CloudEvent whose attributes are headers.
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

// Text is the non-empty string, or the number as it is written, at a path.
// Anything else counts as absent. Texts that are joined have a dot between,
// and are absent if one of them is.
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

// Raw is the JSON value at a path; what is not in the body becomes a string.
func (v *View) Raw(p Path) (json.RawMessage, bool) {
	if p.joined != nil || p.hash || p.header != "" {
		s, ok := v.Text(p)
		return marshal(strings.ToValidUTF8(s, "\uFFFD")), ok
	}
	r := v.At(p)
	return json.RawMessage(r.Raw), r.Exists()
}

// At is the JSON value at a path into the body or the CloudEvent; it does not
// exist if nothing is there, or for another path. It copies nothing: it points
// into the view, and keeps it alive.
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
		v.keep(p.text, r)
	}
	return r
}

// root is what a path into JSON starts from.
func (v *View) root(p Path) []byte {
	if p.inEvent {
		return v.CloudEvent()
	}
	return v.JSON()
}

// walk goes down step by step, since gjson's escapes hold for the members of
// objects only: on an array, even an escaped # counts its elements.
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

// bodyHash is the SHA-256 of the body, computed once.
func (v *View) bodyHash() (string, bool) {
	if v.hash == "" && v.meter.UseBytes(len(v.body)) == nil {
		sum := sha256.Sum256(v.body)
		v.hash = hex.EncodeToString(sum[:])
	}
	return v.hash, v.hash != ""
}

// headerSteps are those of looking for a header.
const headerSteps = 100

// FirstText is the text at the first path that has one. In a large body it looks
// all of them up together.
func (v *View) FirstText(paths []Path) (string, bool) {
	if len(paths) > 1 && v.IsLarge() {
		v.findFirst(paths)
	}
	for _, p := range paths {
		if s, ok := v.Text(p); ok {
			return s, true
		}
	}
	return "", false
}
