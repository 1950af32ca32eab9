package payload

import (
	"encoding/json"
	"net/textproto"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/eventhook/eventhook"
)

// Path points into a webhook: header.<name>, or body.<a.b.0.c>. Parse it once,
// use it often, from any goroutine.
type Path struct {
	header string // canonical name, or "" for a body path
	body   string // in gjson's syntax, every step taken literally
}

// ParsePath reads a path. The error is of KindInvalid.
func ParsePath(s string) (Path, error) {
	if wrong := eventhook.CheckPath(s); wrong != "" {
		return Path{}, &eventhook.Error{Kind: eventhook.KindInvalid, Message: "path " + wrong}
	}
	kind, rest, _ := strings.Cut(s, ".")
	if kind == "header" {
		return Path{header: textproto.CanonicalMIMEHeaderKey(rest)}, nil
	}
	steps := strings.Split(rest, ".")
	for i := range steps {
		steps[i] = gjson.Escape(steps[i])
	}
	return Path{body: strings.Join(steps, ".")}, nil
}

// ParsePaths reads several paths.
func ParsePaths(list []string) ([]Path, error) {
	paths := make([]Path, len(list))
	for i, s := range list {
		var err error
		if paths[i], err = ParsePath(s); err != nil {
			return nil, err
		}
	}
	return paths, nil
}

// IsZero reports whether the path was never parsed.
func (p Path) IsZero() bool { return p.header == "" && p.body == "" }

// Text is the non-empty string, or the number as it is written, at a path.
// Anything else counts as absent.
func (v *View) Text(p Path) (string, bool) {
	if p.header != "" {
		s := v.header.Get(p.header)
		return s, s != ""
	}
	switch r := v.at(p); r.Type {
	case gjson.String:
		return r.Str, r.Str != ""
	case gjson.Number:
		return r.Raw, true
	default:
		return "", false
	}
}

// Raw is the JSON value at a path; a header's value becomes a string.
func (v *View) Raw(p Path) (json.RawMessage, bool) {
	if p.header != "" {
		s := v.header.Get(p.header)
		return marshal(strings.ToValidUTF8(s, "\uFFFD")), s != ""
	}
	r := v.at(p)
	return json.RawMessage(r.Raw), r.Exists()
}

func (v *View) at(p Path) gjson.Result {
	view := v.JSON()
	if view == nil {
		return gjson.Result{}
	}
	return gjson.GetBytes(view, p.body)
}

// FirstText is the text at the first path that has one.
func (v *View) FirstText(paths []Path) (string, bool) {
	for _, p := range paths {
		if s, ok := v.Text(p); ok {
			return s, true
		}
	}
	return "", false
}
