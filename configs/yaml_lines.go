package configs

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/eventhook/eventhook"
)

var (
	bareLine = regexp.MustCompile(`^line (\d+)$`)
	pathStep = regexp.MustCompile(`[^.\[\]]+|\[\d+\]`)
)

// atLines gives faults the file's name before their locations, and the line
// where it is known: tenants.yaml:12: tenants[0].sources[1].slug. A field that
// is missing has the line of what misses it.
func atLines(file string, raw []byte, faults eventhook.Faults) eventhook.Faults {
	var doc yaml.Node
	isYAML := yaml.Unmarshal(raw, &doc) == nil && len(doc.Content) > 0
	var all eventhook.Faults
	for _, f := range faults {
		at := file
		if m := bareLine.FindStringSubmatch(f.Location); m != nil {
			at = file + ":" + m[1]
		} else if f.Location != "" {
			if isYAML {
				at = fmt.Sprintf("%s:%d", file, lineOf(doc.Content[0], f.Location))
			}
			at += ": " + f.Location
		}
		all.Add(at, "%s", f.Message)
	}
	return all
}

// lineOf is the line of what a path leads to, as far as the path is there.
func lineOf(n *yaml.Node, path string) int {
	line := n.Line
	for _, step := range pathStep.FindAllString(path, -1) {
		for n.Kind == yaml.AliasNode {
			n = n.Alias // which is never an alias of itself: one stands before what it names
		}
		key, value := member(n, step)
		if value == nil {
			return line
		}
		line, n = key.Line, value
	}
	return line
}

// member is a field of a map or, for a step such as [3], one of a list, with
// the node that it begins with; nil if there is none.
func member(n *yaml.Node, step string) (begins, value *yaml.Node) {
	if index, isIndex := strings.CutPrefix(step, "["); isIndex {
		i, err := strconv.Atoi(strings.TrimSuffix(index, "]"))
		if err != nil || n.Kind != yaml.SequenceNode || i >= len(n.Content) {
			return nil, nil
		}
		return n.Content[i], n.Content[i]
	}
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == step {
			return n.Content[i], n.Content[i+1]
		}
	}
	return nil, nil
}
