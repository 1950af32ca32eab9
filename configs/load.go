package configs

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/eventhook/eventhook"
)

// Sources are the inputs of Load. The environment overrides the file, and flags
// override both.
type Sources struct {
	File    string            // path of a YAML file; "" for none
	Environ []string          // in the format of os.Environ
	Flags   map[string]string // by key, such as "listen"
}

const errNotValid = "the configuration is not valid"

// Load reads and validates the configuration. A setting without a value, and an
// empty value in the file or the environment, keeps its default. The error lists
// every fault by its key and contains no secret. An unknown EVENTHOOK_ variable is a
// fault, unless a command reads it or Kubernetes defines it for a service of that name.
func Load(s Sources) (c Config, err error) {
	c = Default()
	l := loader{settings: settingsOf(&c)}
	if err := l.file(s.File); err != nil {
		return Config{}, err // settings that the file may contain would be reported as missing
	}
	l.environment(s.Environ)
	for key, value := range s.Flags {
		l.set(key, value)
	}
	c.Ingest.TrustedProxies, c.Ingest.PublicURL = c.TrustedProxies, c.PublicURL
	faults := c.Validate()
	validateKeys(&faults, c.EncryptionKeys)
	if len(l.faults) > 0 { // c lacks the values that could not be read
		c = Config{}
	}
	faults = append(slices.DeleteFunc(faults, l.hasFault), l.faults...)
	slices.SortStableFunc(faults, func(a, b eventhook.Fault) int { return cmp.Compare(a.Location, b.Location) })
	return c, faults.Err(errNotValid)
}

// LogFormat returns the setting log.format as far as the sources can be read. It ignores faults.
func LogFormat(s Sources) string {
	c := Default()
	l := loader{settings: settingsOf(&c)}
	_ = l.file(s.File)
	l.environment(s.Environ)
	return c.Log.Format
}

// validateKeys is not part of Config.Validate, because commands that seal nothing
// need no keys.
func validateKeys(f *eventhook.Faults, keys []string) {
	const size = 32
	for i, key := range keys {
		if raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(key)); err != nil || len(raw) != size {
			f.Add(fmt.Sprintf("encryption_keys[%d]", i), "is not %d bytes in base64; create a key with: openssl rand -base64 %[1]d", size)
		}
	}
}

// loader sets the fields of a Config and collects the faults.
type loader struct {
	settings settings
	faults   eventhook.Faults
}

// hasFault reports whether the setting of a fault could not be read.
func (l *loader) hasFault(f eventhook.Fault) bool {
	return slices.ContainsFunc(l.faults, func(unread eventhook.Fault) bool { return unread.Location == f.Location })
}

// file sets the settings of a file. The error lists what makes the whole file unusable.
func (l *loader) file(name string) error {
	if name == "" {
		return nil
	}
	raw, wrong := readAtMost(name, maxFileBytes)
	if wrong != "" {
		return invalid("config", name+" "+wrong)
	}
	values, faults := parseSettings(raw)
	if len(faults) > 0 {
		return atLines(filepath.Base(name), raw, faults).Err(errNotValid)
	}
	l.section("", values)
	return nil
}

// parseSettings reads the settings of a file. If there are faults, there are no settings.
func parseSettings(raw []byte) (values map[string]any, faults eventhook.Faults) {
	documents, err := readDocuments(raw)
	switch {
	case err != nil:
		return nil, syntaxFaults(err)
	case len(documents) == 0:
		return nil, nil
	case len(documents) > 1:
		faults.Add("", "contains more than one document; put all settings into one")
		return nil, faults
	}
	faults, fits := checkType(documents[0].Content[0], reflect.TypeOf(values), lineOfNode)
	if !fits {
		return nil, faults
	}
	if err := documents[0].Decode(&values); err != nil {
		return nil, syntaxFaults(err)
	}
	return values, nil
}

// section sets the settings of one mapping of the file. An empty value keeps the
// default.
func (l *loader) section(prefix string, values map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		key, value := prefix+name, values[name]
		inner, isMap := value.(map[string]any)
		switch _, isSetting := l.settings[key]; {
		case isSetting && value != nil:
			l.set(key, value)
		case isSetting:
		case !l.settings.hasSection(key):
			l.faults = append(l.faults, l.unknownSetting(key))
		case isMap:
			l.section(key+".", inner)
		case value != nil:
			l.faults.Add(key, "must be a section with settings")
		}
	}
}

// set sets one setting. Its faults do not contain the value, which may be a secret
// under the wrong key.
func (l *loader) set(key string, value any) {
	field, ok := l.settings[key]
	if !ok {
		l.faults = append(l.faults, l.unknownSetting(key))
		return
	}
	if want := assign(field, value); want != "" {
		l.faults.Add(key, "must be %s", want)
	}
}

func invalid(location, message string) error {
	return eventhook.Faults{{Location: location, Message: message}}.Err(errNotValid)
}
