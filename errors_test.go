package eventhook_test

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
)

func TestErrorText(t *testing.T) {
	for _, c := range []struct {
		claim string
		err   eventhook.Error
		want  string
	}{
		{"message alone", eventhook.Error{Message: "name is taken"}, "name is taken"},
		{"with its cause", eventhook.Error{Message: "name is taken", Cause: io.EOF}, "name is taken: EOF"},
		{"with a fault", eventhook.Error{Message: "invalid", Faults: []eventhook.Fault{{"a", "is wrong"}}}, "invalid: a: is wrong"},
		{"a sentence alone", eventhook.Error{Message: "Try again."}, "Try again."},
		{"a sentence with its cause", eventhook.Error{Message: "Try again.", Cause: io.EOF}, "Try again: EOF"},
		{"a sentence with a fault", eventhook.Error{Message: "It is invalid.", Faults: []eventhook.Fault{{"a", "is wrong"}}}, "It is invalid: a: is wrong"},
		{
			"with faults and cause",
			eventhook.Error{Message: "invalid", Faults: []eventhook.Fault{{"a", "is wrong"}, {"b[0]", "is too"}}, Cause: io.EOF},
			"invalid: a: is wrong; b[0]: is too: EOF",
		},
	} {
		t.Run(c.claim, func(t *testing.T) {
			if got := c.err.Error(); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestErrorsIsMatchesKindAndMessage(t *testing.T) {
	taken := &eventhook.Error{Kind: eventhook.KindConflict, Message: "taken", Cause: io.EOF}
	for _, c := range []struct {
		claim       string
		err, target error
		want        bool
	}{
		{"a sentinel matches itself", eventhook.ErrLeaseLost, eventhook.ErrLeaseLost, true},
		{"a wrapped sentinel", fmt.Errorf("settle: %w", eventhook.ErrLeaseLost), eventhook.ErrLeaseLost, true},
		{"a sentinel's text with a cause", &eventhook.Error{Kind: eventhook.KindConflict, Message: eventhook.ErrLeaseLost.Message, Cause: io.EOF}, eventhook.ErrLeaseLost, true},
		{"another conflict", taken, eventhook.ErrLeaseLost, false},
		{"the cause", taken, io.EOF, true},
		{"a named resource matches ErrNotFound", eventhook.NotFound("event"), eventhook.ErrNotFound, true},
		{"a wrapped named resource matches ErrNotFound", fmt.Errorf("read: %w", eventhook.NotFound("event")), eventhook.ErrNotFound, true},
		{"ErrNotFound does not match a named resource", eventhook.ErrNotFound, eventhook.NotFound("event"), false},
		{"a conflict does not match ErrNotFound", taken, eventhook.ErrNotFound, false},
	} {
		t.Run(c.claim, func(t *testing.T) {
			if got := errors.Is(c.err, c.target); got != c.want {
				t.Errorf("errors.Is(%v, %v): got %t, want %t", c.err, c.target, got, c.want)
			}
		})
	}
}

func TestKindOf(t *testing.T) {
	for _, c := range []struct {
		err  error
		want eventhook.Kind
	}{
		{nil, ""},
		{io.EOF, ""},
		{eventhook.NotFound("event"), eventhook.KindNotFound},
		{fmt.Errorf("a: %w", fmt.Errorf("b: %w", eventhook.ErrLeaseLost)), eventhook.KindConflict},
		{&eventhook.Error{Kind: eventhook.KindInvalid, Cause: eventhook.ErrNotFound}, eventhook.KindInvalid},
	} {
		if got := eventhook.KindOf(c.err); got != c.want {
			t.Errorf("KindOf(%v): got %q, want %q", c.err, got, c.want)
		}
	}
}

func TestErrListsAllFaults(t *testing.T) {
	var none, part, all eventhook.Faults
	if err := none.Err("invalid"); err != nil {
		t.Errorf("no faults: got %v, want nil", err)
	}
	part.Add("slug", "%q is wrong", "A")
	part.Add("[2]", "is wrong")
	part.Add("", "as a whole")
	all.Merge("", part)
	all.Merge("sources[0]", part)
	err := all.Err("the configuration is invalid")
	if got := eventhook.KindOf(err); got != eventhook.KindInvalid {
		t.Errorf("got kind %q, want %q", got, eventhook.KindInvalid)
	}
	e, _ := errors.AsType[*eventhook.Error](err)
	want := []eventhook.Fault{
		{"slug", `"A" is wrong`}, {"[2]", "is wrong"}, {"", "as a whole"},
		{"sources[0].slug", `"A" is wrong`}, {"sources[0][2]", "is wrong"}, {"sources[0]", "as a whole"},
	}
	if diff := cmp.Diff(want, e.Faults); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
	if part[0].Location != "slug" {
		t.Errorf("Merge changed the part: got %q, want slug", part[0].Location)
	}
}
