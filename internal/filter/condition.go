package filter

// condition is a part of a filter. If why is not nil, a condition that does not hold adds its
// reason.
type condition interface {
	holds(s *Subject, why *Reasons) bool
}

type allOf []condition

func (all allOf) holds(s *Subject, why *Reasons) bool {
	for _, c := range all {
		if !c.holds(s, why) {
			return false
		}
	}
	return true
}

type anyOf []condition

func (list anyOf) holds(s *Subject, why *Reasons) bool {
	var each *Reasons
	if why != nil {
		each = &Reasons{}
	}
	for _, c := range list {
		if c.holds(s, each) {
			return true
		}
	}
	if why != nil {
		*why = append(*why, reason{"none of $or: " + each.String(), "none of $or: " + each.General()})
	}
	return false
}

// notAll holds if the denied condition does not hold, for example because a field is missing.
type notAll struct {
	denied condition
	text   string
}

func (n notAll) holds(s *Subject, why *Reasons) bool {
	if !n.denied.holds(s, nil) {
		return true
	}
	if why != nil {
		why.Add("$not: %s holds", n.text)
	}
	return false
}

// fieldTest applies tests to a field of an event.
type fieldTest struct {
	place place
	path  string
	tests []test
}

// testSteps is the number of steps of a test, in addition to what its operator reads.
const testSteps = 3

func (f fieldTest) holds(s *Subject, why *Reasons) bool {
	value := s.at(f.place)
	for i := range f.tests {
		if s.Meter.Use(testSteps) == nil && f.tests[i].passes(s.Meter, value) {
			continue
		}
		if why != nil {
			why.addFound(f.path, value, f.tests[i].wanted)
		}
		return false
	}
	return true
}
