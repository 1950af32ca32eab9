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

// object is a JSON object that something is read from. Only what is there
// once is believed: of a member that is there twice, other readers may see
// the other one.
type object struct{ json gjson.Result }

var (
	errNoView   = &Error{ReasonMalformed, "the body cannot be read as JSON or as a form"}
	errEncoded  = &Error{ReasonMalformed, "the signature covers fields of the body, and the body has a content encoding"}
	errRepeated = &Error{ReasonMalformed, "a field that counts is in the body more than once"}
)

// viewOf reads the body, in JSON or a form, as the object that routes see. It
// reads no XML: no provider signs what stands in that, and to read it for
// senders who are not known yet takes long. It decodes no content encoding, for
// the same reason: whoever signs fields of a body sends it as it is.
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

// member is the value at a path, or one that does not exist. It reads the bytes
// once for each step.
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

// text is the text, number or truth value, as it is written, at the first of
// some paths that has one, "" if there is none.
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

// maxItems bounds the elements of a body that are looked at.
const maxItems = 1000

var errItems = &Error{ReasonMalformed, fmt.Sprintf("the body holds more than %d of what counts", maxItems)}

// each hands the values at a path, in which # stands for all elements of an
// array, to do, until that fails; an element without the value as one that
// does not exist. It returns how many there were. It keeps none of them: a
// body of a million elements must not cost more than its bytes.
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

var errElements = &Error{ReasonMalformed, fmt.Sprintf("the path into the body has more than %d steps #", maxElements)}

func countOf(list []string, one string) (n int) {
	for _, s := range list {
		if s == one {
			n++
		}
	}
	return n
}

// fieldPath points into a body: names with dots between. It may have
// alternatives, with | between.
type fieldPath [][]string

// itself is the path to where one is already.
var itself = fieldPath{nil}

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

// validateOnePath wants a path without alternatives; with elements, # may
// stand for all elements of an array.
func validateOnePath(key, path string, elements bool, f *eventhook.Faults) {
	validatePath(key, path, f)
	if strings.Contains(path, "|") {
		f.Add(key, "takes no alternatives")
	}
	if !elements && slices.Contains(strings.Split(path, "."), "#") {
		f.Add(key, "# has no meaning here")
	}
}
