package configs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/eventhook/eventhook"
)

// LoadTenants reads the tenants in a YAML file, or in all .yaml and .yml files of a
// folder, sorted by file name; a tenant must not be in two files. ${NAME} in a text
// is replaced by the value that env returns for NAME, and $$ by $. A secret that
// starts with file: is replaced by the content of the file, with a path relative to
// the YAML file. The error lists every fault of all files by file and line. It never
// contains a replaced value.
func LoadTenants(path string, env func(string) (string, bool)) ([]eventhook.TenantConfig, error) {
	files, err := tenantFiles(path)
	if err != nil {
		return nil, err
	}
	var all []eventhook.TenantConfig
	var faults eventhook.Faults
	fileOf := map[string]string{} // by tenant slug
	for _, name := range files {
		raw, wrong := readWhole(name, maxFileBytes)
		if wrong != "" {
			return nil, invalid(name, wrong)
		}
		base := filepath.Base(name)
		tenants, found := parseTenants(raw, env, filepath.Dir(name))
		faults = append(faults, atLines(base, raw, found)...)
		for _, t := range tenants {
			if other, twice := fileOf[t.Slug]; twice && other != base {
				faults.Add(base, "the tenant %q is also in %s", t.Slug, other)
			}
			fileOf[t.Slug] = base
		}
		all = append(all, tenants...)
	}
	return all, faults.Err(errNotValid)
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
		return nil, invalid(path, "contains no .yaml or .yml file")
	}
	slices.Sort(files)
	return files, nil
}

// ParseTenants reads the tenants in the text of one file; see LoadTenants. Paths are
// relative to the working directory.
func ParseTenants(raw []byte, env func(string) (string, bool)) ([]eventhook.TenantConfig, eventhook.Faults) {
	return parseTenants(raw, env, "")
}

func parseTenants(raw []byte, env func(string) (string, bool), dir string) ([]eventhook.TenantConfig, eventhook.Faults) {
	var faults eventhook.Faults
	documents, err := readDocuments(raw)
	if err != nil {
		return nil, syntaxFaults(err)
	}
	if len(documents) == 0 {
		faults.Add("tenants", "is required")
		return nil, faults
	}
	if len(documents) > 1 {
		faults.Add("", "contains more than one document; put their tenants into one list, or into several files of a folder")
	}
	refs := references{env: env, dir: dir, faults: &faults, literal: map[string]bool{}, check: checkHere}
	tenants := refs.tenants(documents[0], lineOfNode)
	if refs.err != nil {
		faults.Add("", "cannot be checked: %s", refs.err)
	}
	return tenants, faults
}

// tenants reads the tenants of a document and adds every fault. at returns the location of a
// node.
func (r *references) tenants(doc *yaml.Node, at func(*yaml.Node) string) []eventhook.TenantConfig {
	faults, fits := checkType(doc.Content[0], reflect.TypeFor[tenantsFile](), at)
	*r.faults = append(faults, *r.faults...)
	checkEmptyLists(doc, "", r.faults)
	r.replace(doc)
	var file tenantsFile
	if err := doc.Decode(&file); err != nil && fits {
		r.faults.Add("", "a value has the wrong type for its field; check the values of ${…} and explicit tags such as !!binary")
	}
	if !fits {
		return nil
	}
	tenants := file.config(r)
	r.hide()
	return tenants
}

// readDocuments parses the documents of a file; an empty file has none.
func readDocuments(raw []byte) (documents []*yaml.Node, err error) {
	for decoder := yaml.NewDecoder(bytes.NewReader(raw)); ; {
		document := new(yaml.Node)
		if err := decoder.Decode(document); errors.Is(err, io.EOF) {
			return documents, nil
		} else if err != nil {
			return nil, err
		}
		documents = append(documents, document)
	}
}

// maxFileBytes is enough for a hundred thousand sources.
const maxFileBytes = 64 << 20

// readWhole reads a regular file of at most maxBytes. If it cannot, wrong is the
// reason.
func readWhole(name string, maxBytes int64) (raw []byte, wrong string) {
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return nil, unreadable(err)
	case !info.Mode().IsRegular():
		return nil, "is not a regular file"
	case info.Size() > maxBytes:
		return nil, fmt.Sprintf("has %d bytes, at most %d are read", info.Size(), maxBytes)
	}
	if raw, err = os.ReadFile(name); err != nil {
		return nil, unreadable(err)
	}
	return raw, ""
}

// checkEmptyLists refuses lists without a value, and empty elements of lists: a file
// that was truncated must not be taken for a configuration that deletes resources.
func checkEmptyLists(n *yaml.Node, at string, faults *eventhook.Faults) {
	if n.Kind == yaml.DocumentNode {
		n = n.Content[0]
	}
	if n.Kind == yaml.MappingNode {
		for i := 0; i+1 < len(n.Content); i += 2 {
			key, value := n.Content[i].Value, n.Content[i+1]
			path := strings.TrimPrefix(at+"."+key, ".")
			if value.Tag == "!!null" && slices.Contains([]string{"tenants", "sources", "routes", "targets", "subscriptions", "event_types"}, key) {
				faults.Add(path, "has no value: leave it out, or write []")
			}
			checkEmptyLists(value, path, faults)
		}
	}
	if n.Kind == yaml.SequenceNode {
		for i, child := range n.Content {
			path := fmt.Sprintf("%s[%d]", at, i)
			if child.Tag == "!!null" {
				faults.Add(path, "has no value")
			}
			checkEmptyLists(child, path, faults)
		}
	}
}
