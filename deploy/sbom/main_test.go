package main

import (
	"bytes"
	"os"
	"runtime/debug"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

func TestTheBillListsEveryModuleOfAProgram(t *testing.T) {
	var first, second bytes.Buffer
	if err := run([]string{os.Args[0], "v1.2.3"}, &first); err != nil {
		t.Fatal(err)
	}
	if err := run([]string{os.Args[0], "v1.2.3"}, &second); err != nil || !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Errorf("two documents of one program differ, %v", err)
	}
	var bom cdx.BOM
	if err := cdx.NewBOMDecoder(&first, cdx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	if got := bom.Metadata.Component.Version; got != "v1.2.3" {
		t.Errorf("version of the program: got %q, want v1.2.3", got)
	}
	listed := map[string]bool{}
	for _, c := range *bom.Components {
		listed[c.Name] = c.Version != "" && c.PackageURL != ""
	}
	info, _ := debug.ReadBuildInfo()
	for _, module := range append(info.Deps, &debug.Module{Path: "std"}) {
		if !listed[module.Path] {
			t.Errorf("%s is not listed with its version", module.Path)
		}
	}
}

func TestWrongUsageOfSBOM(t *testing.T) {
	for _, args := range [][]string{nil, {"absent", "v1"}, {"main.go", "v1"}} {
		if err := run(args, &bytes.Buffer{}); err == nil {
			t.Errorf("%q: got no error", args)
		}
	}
}
