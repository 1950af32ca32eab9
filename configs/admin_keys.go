package configs

import (
	"slices"
	"strings"

	"github.com/eventhook/eventhook"
)

// AdminKeys returns the keys in AdminKey, the newest first. The result is empty if
// AdminKey is empty.
func (c Config) AdminKeys() []string { return splitKeys(c.AdminKey) }

// AdminReadKeys returns the keys in AdminReadKey, the newest first.
func (c Config) AdminReadKeys() []string { return splitKeys(c.AdminReadKey) }

// splitKeys splits a setting at its commas, without the white space around the keys.
func splitKeys(text string) []string {
	if text == "" {
		return nil
	}
	keys := strings.Split(text, ",")
	for i, key := range keys {
		keys[i] = strings.TrimSpace(key)
	}
	return keys
}

// validateAdminKeys checks each key of both settings. A key must not be in both: it
// would have the permissions of one of them only.
func (c Config) validateAdminKeys(f *eventhook.Faults) {
	const maxKeys = 10
	for _, setting := range []struct {
		name string
		keys []string
	}{{"admin_key", c.AdminKeys()}, {"admin_read_key", c.AdminReadKeys()}} {
		if len(setting.keys) > maxKeys {
			f.Add(setting.name, "has %d keys, want at most %d", len(setting.keys), maxKeys)
			continue
		}
		for i, key := range setting.keys {
			validateAdminKey(f, setting.name, i+1, key)
		}
	}
	if slices.ContainsFunc(c.AdminReadKeys(), func(key string) bool { return key != "" && slices.Contains(c.AdminKeys(), key) }) {
		f.Add("admin_read_key", "is also an admin_key; use another key")
	}
}

// validateAdminKey checks one key. n is its number in the setting.
func validateAdminKey(f *eventhook.Faults, setting string, n int, key string) {
	const minLength = 16
	switch {
	case key == "":
		f.Add(setting, "key %d is empty; separate the keys by single commas", n)
	case len(key) < minLength:
		f.Add(setting, "key %d has %d characters, want at least %d", n, len(key), minLength)
	}
}
