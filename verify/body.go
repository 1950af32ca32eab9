package verify

import (
	"fmt"
	"slices"
	"strings"
	"unsafe"

	"github.com/tidwall/gjson"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/payload"
)

// object is a JSON object whose members are read by path. A repeated member is an
// error, because other JSON readers could see the other value.
type object struct{ json gjson.Result }

var (
	errNoView   = &Error{ReasonMalformed, "the body cannot be read as JSON or as a form"}
	errEncoded  = &Error{ReasonMalformed, "the signature covers fields of the body, and the body has a content encoding"}
	errRepeated = &Error{ReasonMalformed, "a signed field is in the body more than once"}
)

// viewOf parses a JSON or form body into the object that routes see. It does not
// parse XML, and does not decode a content encoding: no provider signs fields of
// such bodies, and both are expensive for unauthenticated requests.
func viewOf(r *Request) (object, *Error) {
	contentType := r.Header.Get("Content-Type")
	if payload.IsXML(contentType) {
		return object{}, errNoView
	}
	if encoding, ok := payload.ParseEncoding(r.Header.Get("Content-Encoding")); encoding != "" || !ok {
		return object{}, errEncoded
	}
	view := payload.New(nil, r.Header, contentType, r.Body).JSON()
	if view == nil {
		return object{}, errNoView
	}
	return object{gjson.Parse(unsafe.String(unsafe.SliceData(view), len(view)))}, nil //nolint:gosec // a body never changes
}

var errSteps = &Error{ReasonMalformed, fmt.Sprintf("the path into the body has more than %d steps", maxSteps)}

// member returns the value at a path, which does not exist if the path has no
// value. It scans the JSON once per step.
func (o object) member(path []string) (gjson.Result, *Error) {
	at := o.json
	if len(path) > maxSteps {
		return gjson.Result{}, errSteps
	}
	for _, name := range path {
		found, times := gjson.Result{}, 0
		if at.IsObject() {
			at.ForEach(func(key, value gjson.Result) bool {
				if key.Str == name {
					found, times = value, times+1
				}
				return true
			})
		}
		switch times {
		case 0:
			return gjson.Result{}, nil
		case 1:
			at = found
		default:
			return gjson.Result{}, errRepeated
		}
	}
	return at, nil
}

// text returns the string, number or boolean at the first of the paths that has
// one, as it is written in the JSON. It returns "" if there is none.
func (o object) text(paths fieldPath) (string, *Error) {
	for _, path := range paths {
		v, err := o.member(path)
		if err != nil {
			return "", err
		}
		if text, ok := scalarText(v.Raw); ok {
			return text, nil
		}
	}
	return "", nil
}

// maxItems limits the number of elements of a body that are read.
const maxItems = 1000

var errItems = &Error{ReasonMalformed, fmt.Sprintf("the body has more than %d elements at the path", maxItems)}

// each calls do for the values at a path, in which # stands for all elements of
// an array, until do fails. If an element has no value at the rest of the path,
// do gets a value that does not exist. each returns the number of calls. It does
// not collect the values, so that a body with a million elements needs no extra
// memory.
func (o object) each(path []string, do func(object) *Error) (n int, err *Error) {
	i := slices.Index(path, "#")
	if count := countOf(path, "#"); count > maxElements {
		return 0, errElements
	}
	if i < 0 {
		v, err := o.member(path)
		if err != nil || !v.Exists() {
			return 0, err
		}
		return 1, do(object{v})
	}
	list, err := o.member(path[:i])
	if err != nil || !list.IsArray() {
		return 0, err
	}
	list.ForEach(func(_, element gjson.Result) bool {
		var below int
		if below, err = (object{element}).each(path[i+1:], do); err == nil && below == 0 {
			below, err = 1, do(object{})
		}
		if n += below; err == nil && n > maxItems {
			err = errItems
		}
		return err == nil
	})
	return n, err
}

var errElements = &Error{ReasonMalformed, fmt.Sprintf("the path into the body has more than %d # steps", maxElements)}

func countOf(list []string, one string) (n int) {
	for _, s := range list {
		if s == one {
			n++
		}
	}
	return n
}

// fieldPath is a path into the body, with alternatives: a.b|c is {{a b} {c}}.
type fieldPath [][]string

// rootPath is the path of the value itself.
var rootPath = fieldPath{nil}

func parseFieldPath(s string) fieldPath {
	if s == "" {
		return nil
	}
	var paths fieldPath
	for one := range strings.SplitSeq(s, "|") {
		paths = append(paths, strings.Split(one, "."))
	}
	return paths
}

func isFieldPath(s string) bool {
	for one := range strings.SplitSeq(s, "|") {
		if eventhook.CheckPath("body."+one) != "" {
			return false
		}
	}
	return true
}

func validatePath(key, path string, f *eventhook.Faults) {
	switch {
	case path == "":
		f.Add(key, "missing")
	case !isFieldPath(path):
		f.Add(key, "%q is not a path into the body such as data.id", path)
	}
}

// validateOnePath checks a path without alternatives. If elementsAllowed, # can
// stand for all elements of an array.
func validateOnePath(key, path string, elementsAllowed bool, f *eventhook.Faults) {
	validatePath(key, path, f)
	if strings.Contains(path, "|") {
		f.Add(key, "does not support alternatives (|)")
	}
	if !elementsAllowed && slices.Contains(strings.Split(path, "."), "#") {
		f.Add(key, "does not support # (all elements)")
	}
}
