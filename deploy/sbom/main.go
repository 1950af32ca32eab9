// Command sbom prints the bill of materials of a built program as CycloneDX JSON: the modules
// that the Go linker recorded in the program, with their versions and checksums. Equal programs
// have equal documents.
package main

import (
	"debug/buildinfo"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func run(args []string, stdout io.Writer) error {
	if len(args) != 2 {
		return errors.New("usage: sbom PROGRAM VERSION")
	}
	info, err := buildinfo.ReadFile(args[0])
	if err != nil {
		return err
	}
	return cdx.NewBOMEncoder(stdout, cdx.BOMFileFormatJSON).SetPretty(true).Encode(newBOM(info, args[1]))
}

// newBOM returns the document of a program of a version. The standard library is a component of
// its own, since its faults concern the program as faults of modules do.
func newBOM(info *debug.BuildInfo, version string) *cdx.BOM {
	bom := cdx.NewBOM()
	program := cdx.Component{BOMRef: "eventhook", Type: cdx.ComponentTypeApplication, Name: info.Main.Path, Version: version,
		PackageURL: purl(info.Main.Path, version), Licenses: &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}}}
	bom.Metadata = &cdx.Metadata{Component: &program}
	std := debug.Module{Path: "std", Version: info.GoVersion}
	components := []cdx.Component{library(&std)}
	refs := []string{components[0].BOMRef}
	for _, module := range info.Deps {
		if module.Replace != nil {
			module = module.Replace
		}
		component := library(module)
		components, refs = append(components, component), append(refs, component.BOMRef)
	}
	bom.Components = &components
	bom.Dependencies = &[]cdx.Dependency{{Ref: program.BOMRef, Dependencies: &refs}}
	return bom
}

// library returns the component of a module. The checksum in go.sum is a property, since it is
// a hash of the module's files and not of one archive.
func library(m *debug.Module) cdx.Component {
	url := purl(m.Path, m.Version)
	component := cdx.Component{BOMRef: url, Type: cdx.ComponentTypeLibrary, Name: m.Path, Version: m.Version, PackageURL: url}
	if m.Sum != "" {
		component.Properties = &[]cdx.Property{{Name: "go:sum", Value: m.Sum}}
	}
	return component
}

// purl returns the package URL of a Go module (github.com/package-url/purl-spec).
func purl(path, version string) string { return "pkg:golang/" + path + "@" + version }
