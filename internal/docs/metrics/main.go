// Command metrics prints docs/metrics.md from the declarations of the metrics.
package main

import (
	_ "embed"
	"fmt"
	"io"
	"os"
	"strings"
	"text/template"

	"github.com/eventhook/eventhook/internal/telemetry"
)

//go:embed metrics.md.tmpl
var page string

func main() {
	if err := write(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "metrics:", err)
		os.Exit(1)
	}
}

// section is a heading of the page with its metrics.
type section struct {
	Heading  string
	Families []telemetry.Family
}

func write(w io.Writer) error {
	t, err := template.New("page").Funcs(template.FuncMap{"anchor": anchor, "unit": unit, "codes": codes, "native": isNative}).Parse(page)
	if err != nil {
		return err
	}
	var sections []section
	for _, f := range telemetry.NewMetrics().Families() {
		if n := len(sections); n == 0 || sections[n-1].Heading != f.Section {
			sections = append(sections, section{Heading: f.Section})
		}
		last := &sections[len(sections)-1]
		last.Families = append(last.Families, f)
	}
	return t.Execute(w, sections)
}

// anchor returns the fragment of a heading, as GitHub builds it.
func anchor(heading string) string {
	return strings.ReplaceAll(strings.ReplaceAll(strings.ToLower(heading), ",", ""), " ", "-")
}

// unit returns the unit of a family, which Prometheus' conventions put into its name.
func unit(f telemetry.Family) string {
	name := strings.TrimSuffix(f.Name, "_total")
	for _, unit := range []string{"seconds", "bytes"} {
		if strings.HasSuffix(name, "_"+unit) {
			return unit
		}
	}
	return "number"
}

func codes(values []string) string { return "`" + strings.Join(values, "`, `") + "`" }

func isNative(f telemetry.Family) bool { return f.Type == telemetry.Latency }
