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
	"github.com/eventhook/eventhook/internal/filter"
	"github.com/eventhook/eventhook/internal/meter"
	"github.com/eventhook/eventhook/internal/payload"
)

// subject is one event as the routes of a program look at it. What several of
// them want is worked out once, and only when one wants it. Not safe for
// concurrent use.
type subject struct {
	filter.Subject
	run     runner
	began   time.Time
	headers map[string]string
	body    any
	hasBody bool
	cloud   any // the CloudEvent
	fieldOf map[string]any
	input   []byte // what scripts get
	told    int    // bytes of inputs that an explanation has
	eval    activation
}

// subjects keep room for fields from one event to the next.
var subjects = sync.Pool{New: func() any { return &subject{} }}

func newSubject(m *meter.Meter, e *eventhook.Event, f *filter.Fields, run runner) *subject {
	s, _ := subjects.Get().(*subject)
	s.Begin(m, e, f)
	s.run, s.began = run, time.Now()
	return s
}

// release gives the room back. Nothing of the event stays.
func (s *subject) release() {
	s.End()
	*s = subject{Subject: s.Subject}
	subjects.Put(s)
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
	if s.body, err = native(s.Meter, gjson.ParseBytes(text)); err != nil {
		return nil, err
	}
	s.hasBody = true
	return s.body, nil
}

// decodedCloudEvent is the CloudEvent for expressions: without any attributes
// if the event is none, so that one can ask what it has.
func (s *subject) decodedCloudEvent() (any, error) {
	if s.cloud != nil {
		return s.cloud, nil
	}
	if len(s.View.Content()) > mostExpressed {
		return nil, errTooLarge
	}
	var cloud any = map[string]any{}
	if text := s.View.CloudEvent(); text != nil {
		var err error
		if cloud, err = native(s.Meter, gjson.ParseBytes(text)); err != nil {
			return nil, err
		}
	}
	s.cloud = cloud
	return s.cloud, nil
}

// rendered is the body as JSON.
func (s *subject) rendered() ([]byte, error) {
	if len(s.View.Content()) > mostExpressed {
		return nil, errTooLarge
	}
	return s.View.Render(), nil
}

// headerMap has the first value of each header under its name in small letters.
func (s *subject) headerMap() map[string]string {
	if s.headers == nil {
		s.headers = map[string]string{}
		_ = s.Meter.UseBytes(10 * len(s.Event.Headers))
		for name, value := range payload.HeaderBlock(s.Event.Headers).All() {
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
		s.fieldOf = filter.EventFields(s.Event)
	}
	return s.fieldOf
}

// forScripts is the body for scripts, which would see the last of members with
// one name, where filters see the first.
func (s *subject) forScripts() ([]byte, error) {
	body, err := s.rendered()
	if err != nil {
		return nil, err
	}
	if err := s.Meter.UseBytes(10 * len(body)); err != nil {
		return nil, err
	}
	return payload.DropDuplicateMembers(body), nil
}

// scriptInput is the event for scripts: its fields, headers, body and, if it
// is one, the CloudEvent.
func (s *subject) scriptInput() ([]byte, error) {
	if s.input != nil {
		return s.input, nil
	}
	body, err := s.forScripts()
	if err != nil {
		return nil, err
	}
	event := map[string]any{"headers": s.headerMap(), "body": json.RawMessage(body)}
	if cloud := s.View.CloudEvent(); cloud != nil {
		event["cloudevent"] = payload.DropDuplicateMembers(cloud)
	}
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
