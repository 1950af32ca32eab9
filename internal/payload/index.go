package payload

import (
	"strconv"
	"strings"
	"unsafe"

	"github.com/tidwall/gjson"
)

// Index is a set of paths that are looked up together, in one pass over a view.
// Build it with Add, then use it from any goroutine. The zero Index is empty.
type Index struct{ body, event tree }

// tree is the paths that start in one view. Of members with one name, a strict
// path sees the first only; other paths see the first with which they lead to
// something, as they do in gjson.
type tree struct {
	lenient, strict *step
	paths           int
}

// step is a name in paths, with the names that follow it.
type step struct {
	next     map[string]*step
	isStrict bool
	last     int   // the highest index of an array's elements in next, -1 for none
	places   []int // of the paths that end here
}

// Add adds a path, and reports whether it is one into JSON: others cannot be
// added. What is there will be found at the place.
func (x *Index) Add(p Path, place int) bool {
	if p.joined != nil || p.hash || p.header != "" || p.IsZero() {
		return false
	}
	t := &x.body
	if p.inEvent {
		t = &x.event
	}
	at, names := &t.strict, p.steps
	if names == nil {
		at, names = &t.lenient, strings.Split(p.json, ".")
	}
	if *at == nil {
		*at = &step{last: -1, isStrict: p.steps != nil}
	}
	(*at).add(names, place)
	t.paths++
	return true
}

func (s *step) add(names []string, place int) {
	for _, name := range names {
		if s.next == nil {
			s.next = map[string]*step{}
		}
		if s.next[name] == nil {
			s.next[name] = &step{last: -1, isStrict: s.isStrict}
		}
		if i, err := strconv.Atoi(name); err == nil && i >= 0 && strconv.Itoa(i) == name {
			s.last = max(s.last, i)
		}
		s = s.next[name]
	}
	s.places = append(s.places, place)
}

// IsLarge reports whether it takes long to read the view of the body, so that
// several paths are better looked up together.
func (v *View) IsLarge() bool {
	const large = 64 << 10
	return len(v.body) > large
}

// Find looks up the paths of an index and sets what it finds at their places.
// What it finds points into the view, and keeps it alive.
func (v *View) Find(x *Index, found []gjson.Result) {
	if x.body.paths > 0 {
		v.find(&x.body, v.JSON(), found)
	}
	if x.event.paths > 0 {
		v.find(&x.event, v.CloudEvent(), found)
	}
}

// findFirst looks up the paths into JSON, and the parts of joined ones, and keeps
// what it finds for at.
func (v *View) findFirst(paths []Path) {
	var x Index
	var texts []string
	var add func(paths []Path)
	add = func(paths []Path) {
		for _, p := range paths {
			add(p.joined)
			if x.Add(p, len(texts)) {
				texts = append(texts, p.text)
			}
		}
	}
	add(paths)
	found := make([]gjson.Result, len(texts))
	v.Find(&x, found)
	for i, text := range texts {
		v.keep(text, found[i])
	}
}

// keep keeps what is at a path of a large body.
func (v *View) keep(text string, r gjson.Result) {
	if v.known == nil {
		v.known = map[string]gjson.Result{}
	}
	v.known[text] = r
}

// findWork is how often, in time, a view is read to look up many paths.
const findWork = 2

func (v *View) find(t *tree, view []byte, found []gjson.Result) {
	if len(view) == 0 || v.meter.UseBytes(findWork*len(view)) != nil {
		return
	}
	s := search{text: unsafe.String(unsafe.SliceData(view), len(view)), found: found, missing: t.paths} //nolint:gosec // a Payload never changes
	var steps []*step
	for _, root := range []*step{t.lenient, t.strict} {
		if root != nil {
			steps = append(steps, root)
		}
	}
	s.space()
	s.value(steps)
}

// search is one pass over a view, which is valid JSON. It nests no deeper than
// the paths do.
type search struct {
	text    string
	at      int
	found   []gjson.Result
	missing int            // paths of which nothing is found yet
	taken   map[*step]bool // strict steps that have been gone
}

// value reads the value that the steps have led to.
func (s *search) value(steps []*step) {
	from := s.at
	switch s.text[from] {
	case '{':
		s.object(steps)
	case '[':
		s.array(steps)
	default:
		s.skip()
	}
	if s.missing == 0 {
		return // it may have ended within the value
	}
	for _, step := range steps {
		for _, place := range step.places {
			if !s.found[place].Exists() {
				s.found[place] = gjson.Parse(s.text[from:s.at])
				s.missing--
			}
		}
	}
}

func (s *search) object(steps []*step) {
	if !leadOn(steps) {
		s.skip()
		return
	}
	var room [2]*step
	s.at++
	for s.space(); s.text[s.at] != '}' && s.missing > 0; s.space() {
		from := s.at
		s.skip()
		name := s.text[from+1 : s.at-1]
		if strings.IndexByte(name, '\\') >= 0 {
			name = gjson.Parse(s.text[from:s.at]).Str
		}
		s.space()
		s.at++ // the colon
		s.space()
		s.element(s.follow(room[:0], steps, name))
	}
	s.at++
}

func (s *search) array(steps []*step) {
	last := -1
	for _, step := range steps {
		last = max(last, step.last)
	}
	if last < 0 {
		s.skip()
		return
	}
	var room [2]*step
	s.at++
	i := 0
	for s.space(); s.text[s.at] != ']' && s.missing > 0; s.space() {
		next := room[:0]
		if i <= last {
			next = s.follow(next, steps, strconv.Itoa(i))
		}
		s.element(next)
		i++
	}
	s.at++
}

// element reads an element or the value of a member, and what follows it.
func (s *search) element(steps []*step) {
	if len(steps) == 0 {
		s.skip()
	} else {
		s.value(steps)
	}
	if s.missing == 0 {
		return
	}
	if s.space(); s.text[s.at] == ',' {
		s.at++
	}
}

// leadOn reports whether a step has another one behind it.
func leadOn(steps []*step) bool {
	for _, step := range steps {
		if len(step.next) > 0 {
			return true
		}
	}
	return false
}

// follow appends the steps that a name leads to.
func (s *search) follow(next, steps []*step, name string) []*step {
	for _, from := range steps {
		to := from.next[name]
		if to == nil || to.isStrict && s.taken[to] {
			continue
		}
		if to.isStrict {
			if s.taken == nil {
				s.taken = map[*step]bool{}
			}
			s.taken[to] = true
		}
		next = append(next, to)
	}
	return next
}

// space skips white space.
func (s *search) space() {
	for s.at < len(s.text) {
		switch s.text[s.at] {
		case ' ', '\t', '\r', '\n':
			s.at++
		default:
			return
		}
	}
}

// skip goes behind a value.
func (s *search) skip() {
	switch s.text[s.at] {
	case '"':
		s.skipText()
		return
	case '{', '[':
	default:
		for s.at < len(s.text) && strings.IndexByte(",]} \t\r\n", s.text[s.at]) < 0 {
			s.at++
		}
		return
	}
	for depth := 0; s.at < len(s.text); {
		switch s.text[s.at] {
		case '"':
			s.skipText()
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		if s.at++; depth == 0 {
			return
		}
	}
}

// skipText goes behind a text.
func (s *search) skipText() {
	for s.at++; ; s.at++ {
		s.at += strings.IndexByte(s.text[s.at:], '"')
		slashes := 0
		for s.text[s.at-1-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			s.at++
			return
		}
	}
}
