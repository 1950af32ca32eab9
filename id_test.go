package eventhook_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eventhook/eventhook"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 123_456_789, time.UTC)

func TestNewIDIsAUniqueUUIDv7WithTheGivenTime(t *testing.T) {
	const many = 100_000
	seen := make(map[eventhook.EventID]bool, many)
	for range many {
		id := eventhook.NewID[eventhook.Event](noon)
		if seen[id] {
			t.Fatalf("%s was created twice", id)
		}
		seen[id] = true
		if version, variant := id[6]>>4, id[8]>>6; version != 7 || variant != 2 {
			t.Fatalf("%s: got version %d, variant %d; want 7, 2", id, version, variant)
		}
		if got, want := id.Time(), noon.Truncate(time.Millisecond); !got.Equal(want) {
			t.Fatalf("%s: got time %s, want %s", id, got, want)
		}
	}
}

func TestIDsSortByMillisecond(t *testing.T) {
	for _, step := range []time.Duration{time.Millisecond, time.Second, 24 * time.Hour, 50 * 365 * 24 * time.Hour} {
		for range 100 {
			older, younger := eventhook.NewID[eventhook.Event](noon), eventhook.NewID[eventhook.Event](noon.Add(step))
			if bytes.Compare(older[:], younger[:]) >= 0 || older.String() >= younger.String() {
				t.Fatalf("%s does not sort before %s, created %s later", older, younger, step)
			}
		}
	}
}

func TestFirstIDBoundsItsMillisecond(t *testing.T) {
	first, next := eventhook.FirstID[eventhook.Event](noon), eventhook.FirstID[eventhook.Event](noon.Add(time.Millisecond))
	if again := eventhook.FirstID[eventhook.Event](noon.Add(time.Microsecond)); again != first {
		t.Errorf("got %s and %s within one millisecond, want one bound", first, again)
	}
	for range 1000 {
		id := eventhook.NewID[eventhook.Event](noon)
		if bytes.Compare(first[:], id[:]) >= 0 || bytes.Compare(id[:], next[:]) >= 0 {
			t.Fatalf("%s is not between %s and %s", id, first, next)
		}
	}
}

func TestParseID(t *testing.T) {
	const text = "0195a1b2-c3d4-7e5f-8a6b-7c8d9e0f1a2b"
	for _, c := range []struct {
		claim, in string
		ok        bool
	}{
		{"canonical", text, true},
		{"upper case", strings.ToUpper(text), true},
		{"another version", "f47ac10b-58cc-4372-a567-0e02b2c3d479", true},
		{"empty", "", false},
		{"no hyphens", strings.ReplaceAll(text, "-", ""), false},
		{"a hyphen elsewhere", "0195a1b2c-3d4-7e5f-8a6b-7c8d9e0f1a2b", false},
		{"no first hyphen", text[:8] + "0" + text[9:], false},
		{"no second hyphen", text[:13] + "0" + text[14:], false},
		{"no third hyphen", text[:18] + "0" + text[19:], false},
		{"no fourth hyphen", text[:23] + "0" + text[24:], false},
		{"an additional hyphen", "0195a1b2-c3d4-7e5f-8a6b-7c8d9e0f1a-b", false},
		{"a character that is not hexadecimal", "0195a1b2-c3d4-7e5f-8a6b-7c8d9e0f1a2g", false},
		{"braces", "{" + text + "}", false},
		{"urn", "urn:uuid:" + text, false},
		{"space before", " " + text, false},
		{"not UTF-8", "\xff195a1b2-c3d4-7e5f-8a6b-7c8d9e0f1a2b", false},
	} {
		t.Run(c.claim, func(t *testing.T) {
			id, err := eventhook.ParseID[eventhook.Event](c.in)
			switch {
			case c.ok && (err != nil || id.String() != strings.ToLower(c.in)):
				t.Errorf("ParseID(%q): got %s, %v; want the same id", c.in, id, err)
			case !c.ok && (eventhook.KindOf(err) != eventhook.KindMalformed || !id.IsZero()):
				t.Errorf("ParseID(%q): got %s, %v; want the zero id and KindMalformed", c.in, id, err)
			}
		})
	}
}

func TestParseIDErrorQuotesAtMost64Bytes(t *testing.T) {
	_, err := eventhook.ParseID[eventhook.Event](strings.Repeat("x", 1<<20))
	if got, want := len(err.Error()), 100; got > want {
		t.Errorf("got an error of %d bytes, want at most %d", got, want)
	}
}

func TestIDsMarshalAsText(t *testing.T) {
	want := map[eventhook.RouteID][]eventhook.EventID{
		eventhook.NewID[eventhook.Route](noon): {eventhook.NewID[eventhook.Event](noon), {}},
	}
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got map[eventhook.RouteID][]eventhook.EventID
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	for route, events := range want {
		if !slices.Equal(got[route], events) {
			t.Errorf("got %v for %s, want %v", got[route], route, events)
		}
	}
	var id eventhook.EventID
	if err := json.Unmarshal([]byte(`"nonsense"`), &id); eventhook.KindOf(err) != eventhook.KindMalformed {
		t.Errorf("got %v, want KindMalformed", err)
	}
}
