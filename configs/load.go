package configs

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/providers/structs"
	"github.com/knadh/koanf/v2"
	"go.yaml.in/yaml/v3"

	"github.com/eventhook/eventhook"
)

// Sources are where a configuration comes from, the later over the earlier.
type Sources struct {
	File    string            // YAML, "" for none
	Environ []string          // as os.Environ gives it
	Flags   map[string]string // by key, such as "listen"
}

// otherVariables belong to commands, not to the configuration.
var otherVariables = []string{"EVENTHOOK_SERVER", "EVENTHOOK_KEY", "EVENTHOOK_TENANT", "EVENTHOOK_SECRET", "EVENTHOOK_CONFIG", "EVENTHOOK_TEST_DATABASE_URL"}

const configNotValid = "the configuration is not valid"

// Load reads and validates a configuration. The error names every fault at
// once, by its key, and holds no value of a secret. unknown are EVENTHOOK_
// variables that mean nothing here: they are told and not refused, because
// container platforms make such variables by themselves for a service of our
// name. A key whose value in the file is empty keeps its default.
func Load(s Sources) (c Config, unknown []string, err error) {
	k := koanf.New(".")
	if err := k.Load(structs.Provider(Default(), "koanf"), nil); err != nil {
		return c, nil, fmt.Errorf("defaults: %w", err)
	}
	l := loader{defaults: k.All(), values: map[string]any{}}
	l.file(s.File)
	unknown = l.environment(s.Environ)
	for key, value := range s.Flags {
		l.set(key, value)
	}
	if err := k.Load(confmap.Provider(l.values, "."), nil); err != nil {
		return c, unknown, fmt.Errorf("configuration: %w", err)
	}
	if err := k.UnmarshalWithConf("", &c, koanf.UnmarshalConf{Tag: "koanf"}); err != nil {
		return Config{}, unknown, fmt.Errorf("configuration: %w", err)
	}
	c.Ingest.TrustedProxies, c.Ingest.PublicURL = c.TrustedProxies, c.PublicURL
	faults := c.Validate()
	validateKeys(&faults, c.EncryptionKeys)
	if len(l.faults) > 0 { // what could not be read is not in c
		c = Config{}
	}
	faults = append(l.faults, faults...)
	slices.SortStableFunc(faults, func(a, b eventhook.Fault) int { return cmp.Compare(a.Location, b.Location) })
	return c, unknown, faults.Err(configNotValid)
}

// validateKeys is apart from Validate: a command that seals nothing needs no keys.
func validateKeys(f *eventhook.Faults, keys []string) {
	const size = 32
	for i, key := range keys {
		if raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(key)); err != nil || len(raw) != size {
			f.Add(fmt.Sprintf("encryption_keys[%d]", i), "is not %d bytes in base64; make one with: openssl rand -base64 %[1]d", size)
		}
	}
}

// loader collects values by key, each in the type of its default.
type loader struct {
	defaults map[string]any
	values   map[string]any
	faults   eventhook.Faults
}

func (l *loader) file(name string) {
	if name == "" {
		return
	}
	raw, err := os.ReadFile(name)
	if err != nil {
		l.faults.Add("config", "cannot read %s: %v", name, errors.Unwrap(err))
		return
	}
	var doc map[string]any
	if err := yaml.Unmarshal(raw, &doc); err != nil {
		l.faults = append(l.faults, inFile(name, yamlFaults(err))...)
		return
	}
	l.section("", doc)
}

// section sets what a map of the file holds. An empty value says nothing.
func (l *loader) section(prefix string, values map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		key := prefix + name
		inner, isMap := values[name].(map[string]any)
		switch _, known := l.defaults[key]; {
		case known && values[name] != nil:
			l.set(key, values[name])
		case known:
		case !l.isSection(key):
			l.faults.Add(key, "there is no such setting")
		case isMap:
			l.section(key+".", inner)
		case values[name] != nil:
			l.faults.Add(key, "must hold settings of its own")
		}
	}
}

func (l *loader) isSection(key string) bool {
	for known := range l.defaults {
		if strings.HasPrefix(known, key+".") {
			return true
		}
	}
	return false
}

// environment sets what variables say: EVENTHOOK_INGEST_WRITERS is
// ingest.writers, and DATABASE_URL is database_url. An empty one says nothing.
func (l *loader) environment(environ []string) (unknown []string) {
	byName := map[string]string{}
	for key := range l.defaults {
		byName["EVENTHOOK_"+strings.ToUpper(strings.ReplaceAll(key, ".", "_"))] = key
	}
	delete(byName, "EVENTHOOK_DATABASE_URL")
	byName["DATABASE_URL"] = "database_url"
	for _, v := range environ {
		name, value, _ := strings.Cut(v, "=")
		key, known := byName[name]
		switch {
		case known && value != "":
			l.set(key, value)
		case !known && strings.HasPrefix(name, "EVENTHOOK_") && !slices.Contains(otherVariables, name):
			unknown = append(unknown, name)
		}
	}
	slices.Sort(unknown)
	return unknown
}

// set takes a value for a key. The fault does not repeat the value: it may be
// a secret at the wrong place.
func (l *loader) set(key string, value any) {
	fallback, known := l.defaults[key]
	if !known {
		l.faults.Add(key, "there is no such setting")
		return
	}
	converted, want := convert(value, fallback)
	if want != "" {
		l.faults.Add(key, "must be %s", want)
		return
	}
	l.values[key] = converted
}

// convert gives a value the type of another, or says what it must be. A text
// may stand for anything, since variables and flags have nothing else.
func convert(value, like any) (converted any, want string) {
	text, isText := value.(string)
	text = strings.TrimSpace(text)
	var err error
	switch like.(type) {
	case string:
		if isText {
			return value, ""
		}
		return nil, "a text; put it in quotes"
	case bool:
		if converted = value; isText {
			converted, err = strconv.ParseBool(text)
		}
		if _, ok := converted.(bool); ok && err == nil {
			return converted, ""
		}
		return nil, "true or false"
	case time.Duration:
		if d, err := time.ParseDuration(text); isText && err == nil {
			return d, ""
		}
		return nil, "a duration such as 30s or 5m"
	case []string:
		return list(value, text, isText)
	case float64:
		if converted = value; isText {
			converted, err = strconv.ParseFloat(text, 64)
		}
		switch converted.(type) {
		case float64, int:
			if err == nil {
				return converted, ""
			}
		}
		return nil, "a number"
	}
	if converted = value; isText {
		converted, err = strconv.Atoi(text)
	}
	if _, ok := converted.(int); ok && err == nil {
		return converted, ""
	}
	return nil, "a whole number"
}

// list reads a list of texts, or one text with commas.
func list(value any, text string, isText bool) (texts any, want string) {
	parts, isList := value.([]any)
	if !isText && !isList {
		return nil, "a list of texts"
	}
	if isText {
		for part := range strings.SplitSeq(text, ",") {
			parts = append(parts, strings.TrimSpace(part))
		}
	}
	all := []string{}
	for _, part := range parts {
		s, ok := part.(string)
		if !ok {
			return nil, "a list of texts"
		}
		if s != "" {
			all = append(all, s)
		}
	}
	return all, ""
}

func invalid(location, message string) error {
	return eventhook.Faults{{Location: location, Message: message}}.Err(configNotValid)
}
