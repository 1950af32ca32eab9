package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook/internal/telemetry"
)

func TestThePageInTheRepositoryIsCurrent(t *testing.T) {
	var want bytes.Buffer
	if err := write(&want); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want.Bytes()) {
		t.Errorf("docs/metrics.md is out of date: run make docs (-want +got):\n%s", cmp.Diff(want.String(), string(got)))
	}
}

func TestEveryMetricIsDescribed(t *testing.T) {
	for _, f := range telemetry.NewMetrics().Families() {
		if f.Section == "" || !strings.HasSuffix(f.Help, ".") || f.Look == "" {
			t.Errorf("%s lacks a section, a help text of whole sentences, or the situation in which an operator looks at it", f.Name)
		}
		for _, l := range f.Labels {
			if len(l.Values) == 0 && l.Open == "" {
				t.Errorf("%s: the label %s names neither its values nor their bound", f.Name, l.Name)
			}
		}
		if f.Type == telemetry.Counter != strings.HasSuffix(f.Name, "_total") {
			t.Errorf("%s is a %s; the name of a counter, and of no other type, ends in _total", f.Name, f.Type)
		}
	}
}
