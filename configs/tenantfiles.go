package configs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/eventhook/eventhook"
)

// LoadTenants reads the tenants in a YAML file, or in all .yaml and .yml files
// of a folder, in the order of their names; each tenant is in one of them.
// ${NAME} in a text is replaced by what env knows under that name, and $$ by $.
// A secret that begins with file: is read from the file that it names, relative
// to the one it stands in. The error names every fault of all files at once; it
// never holds a text that was put in.
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
			return nil, invalid(name, unreadable(err))
		}
		base := filepath.Base(name)
		tenants, found := parseTenants(raw, env, filepath.Dir(name))
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
		return nil, invalid(path, unreadable(err))
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

// ParseTenants reads one file's tenants; see LoadTenants. Paths are relative to
// the working directory.
func ParseTenants(raw []byte, env func(string) (string, bool)) ([]eventhook.TenantConfig, eventhook.Faults) {
	return parseTenants(raw, env, "")
}

func parseTenants(raw []byte, env func(string) (string, bool), dir string) ([]eventhook.TenantConfig, eventhook.Faults) {
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
	refs := references{env: env, dir: dir, faults: &faults, literal: map[string]bool{}}
	refs.replace(&doc)
	file = tenantsFile{}
	if err := doc.Decode(&file); err != nil && len(faults) == 0 {
		faults.Add("", "a replaced ${…} does not fit its place")
	}
	tenants := file.config(&refs)
	refs.hide()
	return tenants, faults
}
