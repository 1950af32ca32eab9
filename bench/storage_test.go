package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

func TestStoredBytesAreTheGrowthOfAllTables(t *testing.T) {
	var out bytes.Buffer
	r := &run{out: &out}
	before := []tableSize{{"event", 1000, 500}, {"tenant", 8000, 16000}}
	after := []tableSize{{"event", 31_000, 10_500}, {"created_later", 5000, 0}, {"tenant", 8000, 16000}}
	r.reportStored(before, after, 10)
	if got, want := r.ratios[0].Value, 4500.0; got != want {
		t.Errorf("got %f bytes per event, want %f", got, want)
	}
	for _, line := range []string{"event 3000 1000 4000", "created_later 500 0 500", "all, of 10 events 3500 1000 4500"} {
		if got := strings.Join(strings.Fields(out.String()), " "); !strings.Contains(got, line) {
			t.Errorf("got %q, want %q in it", got, line)
		}
	}
	if strings.Contains(out.String(), "tenant") {
		t.Errorf("got %q, want no line for a table that did not grow", out.String())
	}
}

func TestStoredBodyIsJSONOfAbout650Bytes(t *testing.T) {
	if n := len(storedBody); n < 640 || n > 660 || !json.Valid(storedBody) {
		t.Errorf("got %d bytes, valid JSON: %t; want JSON of about 650", n, json.Valid(storedBody))
	}
	hooks := requestSpec{paths: []string{benchPath}, body: storedBody}
	if m := hooks.message(); !bytes.HasSuffix(m.raw, storedBody) {
		t.Error("the message does not end with the body of its request")
	}
}
