package deploytest

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// dashboard is the part of a dashboard of Grafana that the tests read.
type dashboard struct {
	file          string
	UID           string
	Title         string
	Description   string
	SchemaVersion int
	Templating    struct{ List []variable }
	Panels        []panel
}

type variable struct {
	Name       string
	Type       string
	Definition string
}

type panel struct {
	Type        string
	Title       string
	Description string
	Links       []struct{ URL string }
	FieldConfig struct{ Defaults struct{ Unit string } }
	Targets     []struct {
		Expr       string
		Datasource struct{ UID string }
	}
}

func readDashboards(t *testing.T) (all []dashboard) {
	t.Helper()
	for _, name := range []string{"overview", "tenant", "subscriber", "database"} {
		d := dashboard{file: name + ".json"}
		if err := json.Unmarshal([]byte(readText(t, filepath.Join("../grafana/dashboards", d.file))), &d); err != nil {
			t.Fatalf("%s: %v", d.file, err)
		}
		all = append(all, d)
	}
	return all
}

// names returns the names of the variables.
func (d dashboard) names() map[string]bool {
	names := map[string]bool{}
	for _, v := range d.Templating.List {
		names[v.Name] = true
	}
	return names
}

func TestDashboardsAreComplete(t *testing.T) {
	t.Parallel()
	uids := map[string]bool{}
	for _, d := range readDashboards(t) {
		names := d.names()
		if d.SchemaVersion < 39 || d.UID == "" || uids[d.UID] || d.Title == "" || d.Description == "" || !names["datasource"] || !names["job"] {
			t.Errorf("%s: got version %d, uid %q, title %q, variables %v; want version 39 or later, a uid of its own, a title, a description, and the variables datasource and job",
				d.file, d.SchemaVersion, d.UID, d.Title, names)
		}
		uids[d.UID] = true
		for _, p := range d.Panels {
			if p.Type == "row" {
				continue
			}
			if p.Title == "" || p.Description == "" || p.FieldConfig.Defaults.Unit == "" || len(p.Targets) == 0 {
				t.Errorf("%s: panel %q needs a title, a description, a unit and queries", d.file, p.Title)
			}
			for _, q := range p.Targets {
				if q.Datasource.UID != "${datasource}" {
					t.Errorf("%s: panel %q uses the data source %q, want ${datasource}", d.file, p.Title, q.Datasource.UID)
				}
			}
		}
	}
}

func TestDashboardsNameExistingMetricsAndVariables(t *testing.T) {
	t.Parallel()
	metrics, records := metricNames(), recordNames(t)
	used := regexp.MustCompile(`\$(\w+)`)
	for _, d := range readDashboards(t) {
		names := d.names()
		for title, exprs := range d.queries() {
			for _, expr := range exprs {
				for _, name := range unknownNames(expr, metrics, records) {
					t.Errorf("%s: %q names %s, which does not exist", d.file, title, name)
				}
				for _, v := range used.FindAllStringSubmatch(expr, -1) {
					if !names[v[1]] && v[1] != "__rate_interval" {
						t.Errorf("%s: %q uses the variable %s, which does not exist", d.file, title, v[1])
					}
				}
			}
		}
	}
}

// queries returns the queries of the panels and of the variables, by their titles.
func (d dashboard) queries() map[string][]string {
	all := map[string][]string{}
	for _, p := range d.Panels {
		for _, q := range p.Targets {
			all[p.Title] = append(all[p.Title], q.Expr)
		}
	}
	for _, v := range d.Templating.List {
		if v.Type == "query" {
			all["variable "+v.Name] = []string{v.Definition}
		}
	}
	return all
}

var (
	heading     = regexp.MustCompile(`(?m)^#+ (.*)$`)
	notInAnchor = regexp.MustCompile(`[^a-z0-9_ -]`)
)

func TestLinksOfDashboardsExist(t *testing.T) {
	t.Parallel()
	anchors := map[string]bool{}
	for _, h := range heading.FindAllStringSubmatch(readText(t, runbookFile), -1) {
		anchors[strings.ReplaceAll(notInAnchor.ReplaceAllString(strings.ToLower(h[1]), ""), " ", "-")] = true
	}
	links := 0
	for _, d := range readDashboards(t) {
		for _, p := range d.Panels {
			for _, link := range p.Links {
				links++
				if anchor, isRunbook := strings.CutPrefix(link.URL, runbookURL); !isRunbook || !anchors[anchor] {
					t.Errorf("%s: the link %s of %q does not exist", d.file, link.URL, p.Title)
				}
			}
		}
	}
	if links == 0 {
		t.Error("no panel links to the runbook")
	}
}
