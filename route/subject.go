package route

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/gjson"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/payload"
)

// subject is one event as the routes of a program look at it. What several of
// them want is worked out once, and only when one wants it. Not safe for
// concurrent use.
type subject struct {
	event   *eventhook.Event
	view    *payload.View
	fields  *fields
	found   []gjson.Result // by the number of the field
	looked  []bool
	run     runner
	began   time.Time
	headers map[string]string
	body    any
	hasBody bool
	fieldOf map[string]any
	input   []byte // what scripts get
}

// subjects keeps room for fields from one event to the next.
var subjects = sync.Pool{New: func() any { return &subject{} }}

func newSubject(e *eventhook.Event, f *fields, run runner) *subject {
	s, _ := subjects.Get().(*subject)
	s.event, s.fields, s.run, s.began = e, f, run, time.Now()
	s.view = payload.New(payload.Block(e.Headers), e.ContentType, e.Body)
	if n := len(f.list); cap(s.found) < n {
		s.found, s.looked = make([]gjson.Result, n), make([]bool, n)
	} else {
		s.found, s.looked = s.found[:n], s.looked[:n]
	}
	return s
}

// release gives the room back. Nothing of the event stays.
func (s *subject) release() {
	clear(s.found)
	clear(s.looked)
	*s = subject{found: s.found, looked: s.looked}
	subjects.Put(s)
}

// field is what the event has in a field.
func (s *subject) field(n int) *gjson.Result {
	if !s.looked[n] {
		s.found[n], s.looked[n] = s.fields.list[n].look(s), true
	}
	return &s.found[n]
}

// mostExpressed is how large a body may be that expressions, scripts and
// transforms read: they hold it decoded, many times its size. Patterns and
// paths have no such bound.
const mostExpressed = 1 << 20

var errTooLarge = fmt.Errorf("the body is larger than %d bytes, which is more than expressions and scripts can read", mostExpressed)

// decoded is the body for expressions: what workers would get as input.
func (s *subject) decoded() (any, error) {
	if s.hasBody {
		return s.body, nil
	}
	text, err := s.rendered()
	if err != nil {
		return nil, err
	}
	s.body, s.hasBody = native(gjson.ParseBytes(text)), true
	return s.body, nil
}

// rendered is the body as JSON.
func (s *subject) rendered() ([]byte, error) {
	if len(s.event.Body) > mostExpressed {
		return nil, errTooLarge
	}
	return s.view.Render(), nil
}

// headerMap has the first value of each header under its name in small letters.
func (s *subject) headerMap() map[string]string {
	if s.headers == nil {
		s.headers = map[string]string{}
		for name, value := range payload.Block(s.event.Headers).All() {
			name = strings.ToLower(name)
			if _, again := s.headers[name]; !again {
				s.headers[name] = value
			}
		}
	}
	return s.headers
}

func (s *subject) eventMap() map[string]any {
	if s.fieldOf == nil {
		s.fieldOf = fieldsOf(s.event)
	}
	return s.fieldOf
}

// scriptInput is the event for scripts: its fields, headers and body.
func (s *subject) scriptInput() ([]byte, error) {
	if s.input != nil {
		return s.input, nil
	}
	body, err := s.rendered()
	if err != nil {
		return nil, err
	}
	event := map[string]any{"headers": s.headerMap(), "body": json.RawMessage(body)}
	for name, value := range s.eventMap() {
		event[name] = value
	}
	if s.input, err = json.Marshal(event); err != nil {
		return nil, errors.New("the event cannot be given to a script")
	}
	return s.input, nil
}

// mostThinking is how long the routes of a source may take for one event. What
// scripts are left then fail, and are tried again.
const mostThinking = 2 * time.Second

func (s *subject) isOverdue() bool { return time.Since(s.began) > mostThinking }
