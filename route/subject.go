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

// subject is one event as the routes of a program evaluate it. Values that several routes read are
// computed once, on first use. It is not safe for concurrent use.
type subject struct {
	filter.Subject
	run             runner
	began           time.Time
	headers         map[string]string
	body            any
	hasBody         bool
	cloudEvent      any // nil until it is decoded
	eventFields     map[string]any
	scriptInputJSON []byte // the input of filter_function and JavaScript transforms
	inputBytes      int    // bytes of inputs in an explanation
	eval            activation
}

// subjects reuses the memory for field values from one event to the next.
var subjects = sync.Pool{New: func() any { return &subject{} }}

func newSubject(m *meter.Meter, e *eventhook.Event, f *filter.Fields, run runner) *subject {
	s, _ := subjects.Get().(*subject)
	s.Begin(m, e, f)
	s.run, s.began = run, time.Now()
	return s
}

// release returns the subject to the pool without any value of the event.
func (s *subject) release() {
	s.End()
	*s = subject{Subject: s.Subject}
	subjects.Put(s)
}

// maxDecodedBytes limits the bodies that expressions, scripts and transforms can read, because the
// decoded form takes many times the size. Filters and paths have no such limit.
const maxDecodedBytes = 1 << 20

var errTooLarge = fmt.Errorf("the body is larger than %d bytes, which is more than expressions and scripts can read", maxDecodedBytes)

// decoded returns the body for expressions: the same value that workers would get as input.
func (s *subject) decoded() (any, error) {
	if s.hasBody {
		return s.body, nil
	}
	text, err := s.rendered()
	if err != nil {
		return nil, err
	}
	if s.body, err = celValue(s.Meter, gjson.ParseBytes(text)); err != nil {
		return nil, err
	}
	s.hasBody = true
	return s.body, nil
}

// decodedCloudEvent returns the CloudEvent for expressions. For other events it returns an empty
// map, so that an expression can test for attributes.
func (s *subject) decodedCloudEvent() (any, error) {
	if s.cloudEvent != nil {
		return s.cloudEvent, nil
	}
	if len(s.View.Content()) > maxDecodedBytes {
		return nil, errTooLarge
	}
	var cloud any = map[string]any{}
	if text := s.View.CloudEvent(); text != nil {
		var err error
		if cloud, err = celValue(s.Meter, gjson.ParseBytes(text)); err != nil {
			return nil, err
		}
	}
	s.cloudEvent = cloud
	return s.cloudEvent, nil
}

// rendered returns the body as JSON.
func (s *subject) rendered() ([]byte, error) {
	if len(s.View.Content()) > maxDecodedBytes {
		return nil, errTooLarge
	}
	return s.View.Render(), nil
}

// headerMap maps each header name in lower case to the first value of the header.
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
	if s.eventFields == nil {
		s.eventFields = filter.EventFields(s.Event)
	}
	return s.eventFields
}

// forScripts returns the body for scripts. If an object repeats a name, forScripts keeps the first
// member only, as filters do: a script would otherwise read the last one.
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

// scriptInput returns the event for scripts: its fields, headers and body, and the CloudEvent if it
// is one.
func (s *subject) scriptInput() ([]byte, error) {
	if s.scriptInputJSON != nil {
		return s.scriptInputJSON, nil
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
	if s.scriptInputJSON, err = json.Marshal(event); err != nil {
		return nil, errors.New("the event cannot be encoded for a script")
	}
	return s.scriptInputJSON, nil
}

// maxSourceTime is how long the routes of a source may take for one event. Scripts that have not
// started by then fail with a transient problem.
const maxSourceTime = 2 * time.Second

func (s *subject) isOverdue() bool { return time.Since(s.began) > maxSourceTime }
