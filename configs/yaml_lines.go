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

// atLines puts the file name and, if known, the line before the location of each
// fault: tenants.yaml:12: tenants[0].sources[1].slug. The line of a missing field is
// the line of its parent.
func atLines(file string, raw []byte, faults eventhook.Faults) eventhook.Faults {
	if len(faults) == 0 {
		return nil
	}
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

// lineOf returns the line of the node at a path, or of the last node on the path
// that exists.
func lineOf(n *yaml.Node, path string) int {
	line := n.Line
	for _, step := range pathStep.FindAllString(path, -1) {
		n = resolved(n)
		key, value := member(n, step)
		if value == nil {
			return line
		}
		line, n = key.Line, value
	}
	return line
}

// member returns the value of a field of a mapping or, for a step such as [3], an
// element of a list, and the node where it starts; nil if it does not exist.
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
