package configs

import (
	"errors"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/eventhook/eventhook"
)

var (
	yamlUnknown = regexp.MustCompile(`^(line \d+): field (.*) not found in type \S+$`)
	yamlType    = regexp.MustCompile(`(?s)^(line \d+): cannot unmarshal !!(\w+).* into (.+)$`)
	yamlTwice   = regexp.MustCompile(`(?s)^(line \d+): (mapping key .* already defined at line \d+)$`)
	yamlSyntax  = regexp.MustCompile(`^(?:yaml: )?(line \d+): (.*)$`)
)

// yamlFaults tells what is wrong with a YAML text in words of ours: the
// parser quotes the values that it refuses, which may be secrets at the wrong
// place.
func yamlFaults(err error) (f eventhook.Faults) {
	e, ok := errors.AsType[*yaml.TypeError](err)
	if !ok && strings.Contains(err.Error(), "unknown anchor") {
		f.Add("", "names an anchor that is not there; a text that begins with * needs quotes")
		return f
	}
	if !ok {
		if m := yamlSyntax.FindStringSubmatch(err.Error()); m != nil {
			f.Add(m[1], "is not YAML: %s", m[2])
		} else {
			f.Add("", "is not YAML: %s", strings.TrimPrefix(err.Error(), "yaml: "))
		}
		return f
	}
	for _, message := range e.Errors {
		if m := yamlUnknown.FindStringSubmatch(message); m != nil {
			f.Add(m[1], "there is no field %q here", m[2])
		} else if m := yamlType.FindStringSubmatch(message); m != nil {
			f.Add(m[1], "holds %s where %s belongs", yamlWord(m[2]), goWord(m[3]))
		} else if m := yamlTwice.FindStringSubmatch(message); m != nil {
			f.Add(m[1], "%s", m[2])
		} else {
			f.Add("", "holds what does not belong there")
		}
	}
	return f
}

// onlyUnknown reports whether err tells of unknown fields and nothing else.
func onlyUnknown(err error) bool {
	e, ok := errors.AsType[*yaml.TypeError](err)
	return ok && !slices.ContainsFunc(e.Errors, func(message string) bool { return !yamlUnknown.MatchString(message) })
}

// inFile gives faults the file's name before their locations.
func inFile(path string, faults eventhook.Faults) eventhook.Faults {
	var all eventhook.Faults
	for _, f := range faults {
		all.Add(strings.TrimSuffix(filepath.Base(path)+": "+f.Location, ": "), "%s", f.Message)
	}
	return all
}

func yamlWord(tag string) string {
	word, ok := map[string]string{"str": "a text", "seq": "a list", "map": "fields", "int": "a whole number", "float": "a number",
		"bool": "true or false", "null": "nothing", "timestamp": "a time"}[tag]
	if !ok {
		return "something else"
	}
	return word
}

func goWord(typ string) string {
	switch {
	case strings.HasPrefix(typ, "[]"):
		return "a list"
	case typ == "string":
		return "a text"
	case typ == "bool":
		return "true or false"
	case strings.HasPrefix(typ, "int"):
		return "a whole number"
	case strings.HasPrefix(typ, "float"):
		return "a number"
	}
	return "a set of fields"
}
