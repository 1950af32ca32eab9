package configs

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sort"
	"strings"

	"github.com/go-viper/mapstructure/v2"
	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/providers/rawbytes"
	"github.com/knadh/koanf/providers/structs"
	"github.com/knadh/koanf/v2"

	"github.com/eventhook/eventhook"
)

// Sources are where a configuration comes from, the later over the earlier.
type Sources struct {
	File    string            // YAML, "" for none
	Environ []string          // as os.Environ gives it
	Flags   map[string]string // by key, such as "listen"
}

// otherVariables belong to commands, not to the configuration.
var otherVariables = []string{"EVENTHOOK_SERVER", "EVENTHOOK_KEY", "EVENTHOOK_SECRET", "EVENTHOOK_CONFIG", "EVENTHOOK_TEST_DATABASE_URL"}

// Load reads and validates a configuration. The error names every fault at
// once. unknown are EVENTHOOK_ variables that mean nothing here: they are told
// and not refused, because container platforms make such variables by
// themselves for a service of our name.
func Load(s Sources) (c Config, unknown []string, err error) {
	k := koanf.New(".")
	if err := k.Load(structs.Provider(Default(), "koanf"), nil); err != nil {
		return c, nil, fmt.Errorf("defaults: %w", err)
	}
	keys := k.Keys()
	if s.File != "" {
		raw, err := os.ReadFile(s.File)
		if err != nil {
			return c, nil, invalid("config", fmt.Sprintf("cannot read %s: %v", s.File, errors.Unwrap(err)))
		}
		if err := k.Load(rawbytes.Provider(raw), yaml.Parser()); err != nil {
			return c, nil, invalid("config", fmt.Sprintf("%s is not YAML: %v", s.File, err))
		}
	}
	over, unknown := environment(s.Environ, keys)
	for key, value := range s.Flags {
		over[key] = value
	}
	if err := k.Load(confmap.Provider(over, "."), nil); err != nil {
		return c, nil, fmt.Errorf("variables and flags: %w", err)
	}
	if err := decode(k, &c); err != nil {
		return c, unknown, err
	}
	c.Ingest.TrustedProxies, c.Ingest.PublicURL = c.TrustedProxies, c.PublicURL
	return c, unknown, c.Validate().Err("the configuration is not valid")
}

// environment maps variables to keys: EVENTHOOK_INGEST_WRITERS is
// ingest.writers, and DATABASE_URL is database_url.
func environment(environ, keys []string) (over map[string]any, unknown []string) {
	byName := map[string]string{"DATABASE_URL": "database_url"}
	for _, key := range keys {
		if key != "database_url" {
			byName["EVENTHOOK_"+strings.ToUpper(strings.ReplaceAll(key, ".", "_"))] = key
		}
	}
	over = map[string]any{}
	for _, v := range environ {
		name, value, _ := strings.Cut(v, "=")
		if key, ok := byName[name]; ok {
			if value != "" {
				over[key] = value
			}
		} else if strings.HasPrefix(name, "EVENTHOOK_") && !slices.Contains(otherVariables, name) {
			unknown = append(unknown, name)
		}
	}
	sort.Strings(unknown)
	return over, unknown
}

func decode(k *koanf.Koanf, c *Config) error {
	err := k.UnmarshalWithConf("", c, koanf.UnmarshalConf{DecoderConfig: &mapstructure.DecoderConfig{
		Result:           c,
		TagName:          "koanf",
		ErrorUnused:      true,
		WeaklyTypedInput: true,
		DecodeHook: mapstructure.ComposeDecodeHookFunc(
			mapstructure.StringToTimeDurationHookFunc(),
			mapstructure.StringToSliceHookFunc(","),
		),
	}})
	if err == nil {
		return nil
	}
	var faults eventhook.Faults
	for _, line := range strings.Split(err.Error(), "\n") {
		if line = strings.TrimPrefix(strings.TrimSpace(line), "* "); line != "" && !strings.HasPrefix(line, "decoding failed") {
			faults.Add("config", "%s", line)
		}
	}
	return faults.Err("the configuration is not valid")
}

func invalid(location, message string) error {
	return eventhook.Faults{{Location: location, Message: message}}.Err("the configuration is not valid")
}
