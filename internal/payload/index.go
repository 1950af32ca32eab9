package payload

import (
	"strconv"
	"strings"
	"unsafe"

	"github.com/tidwall/gjson"
)

// Index is a set of paths that are looked up together, in one pass over a view. It
// is built with Add; after that it is safe for concurrent use. The zero Index is
// empty.
type Index struct{ body, event tree }

// tree has the paths into one view. If members have the same name, a strict path
// follows only the first; a lenient path finds the first that leads to a value, as
// in gjson.
type tree struct {
	lenient, strict *step
	paths           int
}

// step is a name in paths, with the possible next names.
type step struct {
	next     map[string]*step
	isStrict bool
	last     int   // the highest array index in next, -1 for none
	places   []int // results of the paths that end here
}

// Add adds a path into JSON. Find stores its value in found[place]. Add returns
// false for other paths, which an Index does not support.
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

// IsLarge reports whether the body is so large that several paths should be looked
// up together.
func (v *View) IsLarge() bool {
	const large = 64 << 10
	return len(v.body) > large
}

// Find looks up the paths of an Index and stores the values found at their places.
// The values point into the view and keep it in memory.
func (v *View) Find(x *Index, found []gjson.Result) {
	if x.body.paths > 0 {
		v.find(&x.body, v.JSON(), found)
	}
	if x.event.paths > 0 {
		v.find(&x.event, v.CloudEvent(), found)
	}
}

// findAll looks up the paths into JSON, including the parts of joined paths, and
// stores the values for At.
func (v *View) findAll(paths []Path) {
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
		v.store(text, found[i])
	}
}

// store caches the value at a path of a large body.
func (v *View) store(text string, r gjson.Result) {
	if v.known == nil {
		v.known = map[string]gjson.Result{}
	}
	v.known[text] = r
}

// findWork is the cost of one lookup of an Index, in reads of the view.
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

// search is the state of one pass over a view, which is valid JSON. Its recursion
// is limited by the depth of the paths.
type search struct {
	text    string
	at      int
	found   []gjson.Result
	missing int            // paths without a value so far
	taken   map[*step]bool // strict steps that were followed
}

// value reads the value at the steps.
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
		return // s.at can be within the value
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
	if !hasNext(steps) {
		s.skip()
		return
	}
	var buffer [2]*step
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
		s.element(s.follow(buffer[:0], steps, name))
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
	var buffer [2]*step
	s.at++
	i := 0
	for s.space(); s.text[s.at] != ']' && s.missing > 0; s.space() {
		next := buffer[:0]
		if i <= last {
			next = s.follow(next, steps, strconv.Itoa(i))
		}
		s.element(next)
		i++
	}
	s.at++
}

// element reads an array element or the value of a member, and the comma after it.
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

// hasNext reports whether one of the steps has a next step.
func hasNext(steps []*step) bool {
	for _, step := range steps {
		if len(step.next) > 0 {
			return true
		}
	}
	return false
}

// follow appends the next steps with the name.
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

// skip skips a value.
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

// skipText skips a string.
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
