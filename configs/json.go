package configs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/eventhook/eventhook"
)

// secretReference matches a text that is exactly a reference: ${NAME} or file:PATH.
var secretReference = regexp.MustCompile(`^(\$\{[^}]*\}|file:.*)$`)

// ReadTenants reads tenants from JSON in the format of the files that LoadTenants reads. It
// resolves no references: ${NAME} and $$ in a text stay as they are, and a secret that is exactly
// a reference, such as ${NAME} or file:PATH, is a fault. Locations are paths such as
// tenants[0].sources[1].slug. ReadTenants returns the first error of check.
func ReadTenants(raw []byte, check CheckRoute) (tenants []eventhook.TenantConfig, faults eventhook.Faults, err error) {
	if !json.Valid(raw) {
		faults.Add("", "is not JSON")
		return nil, faults, nil
	}
	document, err := readNode(newDecoder(raw), jsonText)
	if err != nil {
		faults.Add("", "is not JSON")
		return nil, faults, nil //nolint:nilerr // the fault reports it
	}
	paths := nodePaths{}
	paths.add("", document)
	refs := references{faults: &faults, check: check}
	tenants = refs.tenants(&yaml.Node{Kind: yaml.DocumentNode, Content: []*yaml.Node{document}},
		func(n *yaml.Node) string { return paths[n] })
	return tenants, faults, refs.err
}

// jsonText returns a text of JSON unchanged.
func jsonText(s string) (*yaml.Node, error) {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s}, nil
}

// nodePaths are the paths of the nodes of a document, such as tenants[0].slug. Nodes below a
// path of maxNodePath bytes have none, so that a nested document needs little memory.
type nodePaths map[*yaml.Node]string

const maxNodePath = 200

func (p nodePaths) add(at string, n *yaml.Node) {
	if len(at) > maxNodePath {
		return
	}
	p[n] = at
	for i, child := range n.Content {
		switch {
		case n.Kind == yaml.SequenceNode:
			p.add(fmt.Sprintf("%s[%d]", at, i), child)
		case i%2 == 1:
			inside := strings.TrimPrefix(at+"."+n.Content[i-1].Value, ".")
			p[n.Content[i-1]] = inside
			p.add(inside, child)
		}
	}
}

// EncodeTenants returns tenants as JSON that ReadTenants reads. The JSON contains their secrets.
func EncodeTenants(tenants []eventhook.TenantConfig) (json.RawMessage, error) {
	return (&export{Exporter: NewExporter(), literal: true, reveals: true}).json(tenants)
}

// ExportJSON returns tenants as Export does, as JSON. A secret is a text such as
// ${ACME_GITHUB_SECRET_1}, and $ in another text is not escaped. The member variables lists the
// names of all secrets.
func (x *Exporter) ExportJSON(tenants []eventhook.TenantConfig) (json.RawMessage, error) {
	return (&export{Exporter: x, literal: true}).json(tenants)
}

func (e *export) json(tenants []eventhook.TenantConfig) (json.RawMessage, error) {
	file, err := e.file(tenants)
	if err != nil {
		return nil, err
	}
	if !e.reveals {
		names := &yaml.Node{Kind: yaml.SequenceNode}
		for _, name := range e.variables {
			names.Content = append(names.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: name})
		}
		file.Content = append(file.Content, plainText("variables"), names)
	}
	w := jsonWriter{limit: math.MaxInt}
	w.value("", file)
	return w.buf.Bytes(), w.faults.Err("export")
}

// ExportedFile is a file for LoadTenants, of one or several tenants.
type ExportedFile struct {
	Tenant string // slug of the first tenant
	YAML   []byte
}

// FilesOf converts the JSON of ExportJSON to files for LoadTenants: to one file, or to one for
// each tenant. The comment at the top of a file lists its variables.
func FilesOf(raw json.RawMessage, perTenant bool) (files []ExportedFile, err error) {
	var all struct {
		Tenants   []json.RawMessage `json:"tenants"`
		Variables []string          `json:"variables"`
	}
	if err := json.Unmarshal(raw, &all); err != nil {
		return nil, fmt.Errorf("the exported configuration is not valid: %w", err)
	}
	groups := [][]json.RawMessage{all.Tenants}
	if perTenant {
		groups = nil
		for _, t := range all.Tenants {
			groups = append(groups, []json.RawMessage{t})
		}
	}
	names := map[string]bool{}
	for _, name := range all.Variables {
		names[name] = true
	}
	for _, group := range groups {
		file, err := fileOf(group, names)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	return files, nil
}

// fileOf returns a file of tenants. names are the variables that their texts may refer to.
func fileOf(tenants []json.RawMessage, names map[string]bool) (ExportedFile, error) {
	var name struct {
		Slug string `json:"slug"`
	}
	if len(tenants) > 0 {
		if err := json.Unmarshal(tenants[0], &name); err != nil {
			return ExportedFile{}, fmt.Errorf("the exported configuration is not valid: %w", err)
		}
	}
	e := export{Exporter: NewExporter()}
	list := &yaml.Node{Kind: yaml.SequenceNode}
	for _, t := range tenants {
		n, err := readNode(newDecoder(t), func(s string) (*yaml.Node, error) { return e.importedText(s, names) })
		if err != nil {
			return ExportedFile{}, fmt.Errorf("the exported configuration is not valid: %w", err)
		}
		list.Content = append(list.Content, n)
	}
	text, err := e.print(&yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{plainText("tenants"), list}})
	return ExportedFile{name.Slug, text}, err
}

// importedText converts a text of ExportJSON.
func (e *export) importedText(s string, names map[string]bool) (*yaml.Node, error) {
	name, isClosed := strings.CutSuffix(strings.TrimPrefix(s, "${"), "}")
	if !isClosed || !strings.HasPrefix(s, "${") || !names[name] {
		return textNode(s)
	}
	e.variables = append(e.variables, name)
	return textNode(reference + name)
}

func newDecoder(raw []byte) *json.Decoder {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	return d
}
