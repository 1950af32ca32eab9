package configs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/verify"
)

// tenantsFile is configuration as code, with the names of the API.
type tenantsFile struct {
	Tenants []tenantSpec `yaml:"tenants"`
}

type tenantSpec struct {
	Slug    string       `yaml:"slug"`
	Name    string       `yaml:"name"`
	Sources []sourceSpec `yaml:"sources"`
}

type sourceSpec struct {
	Slug                     string      `yaml:"slug"`
	Name                     string      `yaml:"name"`
	IsEnabled                *bool       `yaml:"is_enabled"`
	Routes                   []routeSpec `yaml:"routes"`
	verify.Spec              `yaml:",inline"`
	eventhook.SourceSettings `yaml:",inline"`
}

type routeSpec struct {
	Name             string             `yaml:"name"`
	Priority         int                `yaml:"priority"`
	IsEnabled        *bool              `yaml:"is_enabled"`
	FilterEventTypes []string           `yaml:"filter_event_types"`
	Targets          []eventhook.Target `yaml:"targets"`
}

// LoadTenants reads the tenants in a YAML file, or in all .yaml and .yml files
// of a folder, in the order of their names. ${NAME} in a text is replaced by
// what env knows under that name, and $$ by $. The error names every fault of
// all files at once; it never holds a replaced text.
func LoadTenants(path string, env func(string) (string, bool)) ([]eventhook.TenantConfig, error) {
	files, err := tenantFiles(path)
	if err != nil {
		return nil, err
	}
	var all []eventhook.TenantConfig
	var faults eventhook.Faults
	fileOf := map[string]string{} // by tenant
	for _, name := range files {
		raw, err := os.ReadFile(name)
		if err != nil {
			return nil, invalid(name, fmt.Sprintf("cannot be read: %v", errors.Unwrap(err)))
		}
		base := filepath.Base(name)
		tenants, found := ParseTenants(raw, env)
		faults = append(faults, inFile(name, found)...)
		for _, t := range tenants {
			if other, twice := fileOf[t.Slug]; twice && other != base {
				faults.Add(base, "the tenant %q is in %s too", t.Slug, other)
			}
			fileOf[t.Slug] = base
		}
		all = append(all, tenants...)
	}
	return all, faults.Err(configNotValid)
}

func tenantFiles(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, invalid(path, fmt.Sprintf("cannot be read: %v", errors.Unwrap(err)))
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	var files []string
	for _, pattern := range []string{"*.yaml", "*.yml"} {
		matches, err := fs.Glob(os.DirFS(path), pattern)
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", path, err)
		}
		for _, m := range matches {
			files = append(files, filepath.Join(path, m))
		}
	}
	if len(files) == 0 {
		return nil, invalid(path, "holds no .yaml or .yml file")
	}
	slices.Sort(files)
	return files, nil
}

// ParseTenants reads one file's tenants; see LoadTenants.
func ParseTenants(raw []byte, env func(string) (string, bool)) ([]eventhook.TenantConfig, eventhook.Faults) {
	var faults eventhook.Faults
	var doc yaml.Node
	if err := yaml.Unmarshal(raw, &doc); err != nil {
		return nil, yamlFaults(err)
	}
	if doc.IsZero() {
		faults.Add("tenants", "is required")
		return nil, faults
	}
	// Unknown fields first, on the text as it is written.
	strict := yaml.NewDecoder(bytes.NewReader(raw))
	strict.KnownFields(true)
	var file tenantsFile
	if err := strict.Decode(&file); err != nil {
		return nil, yamlFaults(err)
	}
	if err := strict.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		faults.Add("", "holds more than one document; put their tenants into one list, or into several files of a folder")
	}
	values := variables{env: env, faults: &faults}
	values.replace(&doc)
	file = tenantsFile{}
	if err := doc.Decode(&file); err != nil && len(faults) == 0 {
		faults.Add("", "a replaced ${…} does not fit its place")
	}
	var tenants []eventhook.TenantConfig
	seen := map[string]bool{}
	for i, t := range file.Tenants {
		at := fmt.Sprintf("tenants[%d]", i)
		if seen[t.Slug] {
			faults.Add(at+".slug", "%q occurs twice", t.Slug)
		}
		seen[t.Slug] = true
		tenants = append(tenants, t.config(at, &faults))
	}
	values.hide()
	return tenants, faults
}

var variable = regexp.MustCompile(`\$\$|\$\{[^}]*\}`)

// variables replaces ${NAME} in texts, and remembers with what.
type variables struct {
	env    func(string) (string, bool)
	faults *eventhook.Faults
	used   []string // value and name, in turn
}

func (v *variables) replace(n *yaml.Node) {
	for _, child := range n.Content {
		v.replace(child)
	}
	if n.Kind != yaml.ScalarNode || n.Tag != "!!str" {
		return
	}
	n.Value = variable.ReplaceAllStringFunc(n.Value, func(match string) string {
		if match == "$$" {
			return "$"
		}
		name := match[2 : len(match)-1]
		value, ok := v.env(name)
		if !ok || value == "" {
			v.faults.Add(fmt.Sprintf("line %d", n.Line), "the variable %s is not set", name)
			return match
		}
		quoted := strconv.Quote(value)
		v.used = append(v.used, value, match, quoted[1:len(quoted)-1], match)
		return value
	})
}

// hide takes the replaced texts out of the faults: messages quote what they
// refuse, and it may be a secret at the wrong place.
func (v *variables) hide() {
	hidden := strings.NewReplacer(v.used...)
	for i := range *v.faults {
		(*v.faults)[i].Message = hidden.Replace((*v.faults)[i].Message)
	}
}

func (t tenantSpec) config(at string, f *eventhook.Faults) eventhook.TenantConfig {
	c := eventhook.TenantConfig{Tenant: eventhook.Tenant{Slug: t.Slug, Name: t.Name}}
	if c.Name == "" {
		c.Name = t.Slug
	}
	f.Merge(at, c.Tenant.Validate())
	seen := map[string]bool{}
	for i, s := range t.Sources {
		at := fmt.Sprintf("%s.sources[%d]", at, i)
		if seen[s.Slug] {
			f.Add(at+".slug", "%q occurs twice", s.Slug)
		}
		seen[s.Slug] = true
		c.Sources = append(c.Sources, s.config(at, f))
	}
	return c
}

func (s sourceSpec) config(at string, f *eventhook.Faults) eventhook.SourceConfig {
	c := eventhook.SourceConfig{Source: eventhook.Source{
		Slug: s.Slug, Name: s.Name, Provider: s.Provider, IsEnabled: s.IsEnabled == nil || *s.IsEnabled, SourceSettings: s.SourceSettings,
	}}
	if c.Name == "" {
		c.Name = s.Slug
	}
	_, faults := s.Resolve()
	f.Merge(at, faults)
	if raw, err := json.Marshal(s.Spec); err == nil {
		c.Verifier, c.SecretsCount = eventhook.NewSecret(string(raw)), s.SecretsCount()
	}
	f.Merge(at, c.Source.Validate())
	seen := map[string]bool{}
	for i, r := range s.Routes {
		at := fmt.Sprintf("%s.routes[%d]", at, i)
		if seen[r.Name] {
			f.Add(at+".name", "%q occurs twice", r.Name)
		}
		seen[r.Name] = true
		route := eventhook.Route{Name: r.Name, Priority: r.Priority, IsEnabled: r.IsEnabled == nil || *r.IsEnabled,
			FilterEventTypes: r.FilterEventTypes, Targets: r.Targets}
		f.Merge(at, route.Validate())
		c.Routes = append(c.Routes, route)
	}
	return c
}
