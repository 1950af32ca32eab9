package eventhook_test

import (
	"strings"
	"testing"

	"github.com/eventhook/eventhook"
)

func TestHopsOf(t *testing.T) {
	for _, c := range []struct {
		claim  string
		values []string
		want   int
	}{
		{"no header", nil, 0},
		{"a number", []string{"3"}, 3},
		{"a number with spaces", []string{" 3 "}, 3},
		{"the highest of several", []string{"1", "4, 2"}, 4},
		{"the limit", []string{"8"}, 8},
		{"more than the limit", []string{"9"}, 9},
		{"a huge number", []string{strings.Repeat("9", 4000)}, 9},
		{"leading zeros", []string{"0000000000000000000000002"}, 2},
		{"a negative number", []string{"-3"}, 0},
		{"a fraction", []string{"3.5"}, 0},
		{"text", []string{"many"}, 0},
		{"other digits", []string{"٣"}, 0},
		{"an empty value", []string{""}, 0},
		{"text beside a number", []string{"x,2"}, 2},
	} {
		if got := eventhook.HopsOf(c.values); got != c.want {
			t.Errorf("%s: got %d, want %d", c.claim, got, c.want)
		}
	}
}

func TestHopsOfAnEvent(t *testing.T) {
	for _, c := range []struct {
		claim string
		event eventhook.Event
		want  int
	}{
		{"a published event", eventhook.Event{Envelope: &eventhook.Envelope{Hops: 2}}, 2},
		{"a webhook", eventhook.Event{Payload: eventhook.Payload{Headers: []byte("Host: a\r\nX-Eventhook-Hops: 5\r\nX-B: c\r\n")}}, 5},
		{"a webhook with two headers", eventhook.Event{Payload: eventhook.Payload{Headers: []byte("Host: a\r\nX-Eventhook-Hops: 1\r\nX-Eventhook-Hops: 5\r\n")}}, 5},
		{"a webhook from elsewhere", eventhook.Event{Payload: eventhook.Payload{Headers: []byte("Host: a\r\n")}}, 0},
		{"the name in a value", eventhook.Event{Payload: eventhook.Payload{Headers: []byte("Host: a\r\nX-A: X-Eventhook-Hops: 5\r\n")}}, 0},
		{"no headers", eventhook.Event{}, 0},
	} {
		if got := c.event.Hops(); got != c.want {
			t.Errorf("%s: got %d, want %d", c.claim, got, c.want)
		}
	}
}
