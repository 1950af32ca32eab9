package helm_test

import (
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v4"
)

// chartOwned lists the settings that other values of the chart set.
var chartOwned = []string{"database_url", "data_dir", "listen", "management_listen", "roles", "public_url", "admin_key", "admin_read_key",
	"encryption_keys", "tls", "database.direct_url", "database.read_url"}

// The schema lists the settings of the program, so that a misspelled one is an error of helm.
func TestTheSchemaListsEverySetting(t *testing.T) {
	raw, err := os.ReadFile("../../configs/example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var example map[string]any
	if err := yaml.Unmarshal(raw, &example); err != nil {
		t.Fatal(err)
	}
	if raw, err = os.ReadFile("eventhook/values.schema.json"); err != nil {
		t.Fatal(err)
	}
	var schema struct {
		Properties struct{ Settings node }
	}
	if err := json.Unmarshal(raw, &schema); err != nil {
		t.Fatal(err)
	}
	want := slices.DeleteFunc(keysOf(example, ""), func(key string) bool { return slices.Contains(chartOwned, key) })
	got := schema.Properties.Settings.keys("")
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("properties.settings of values.schema.json (-configs/example.yaml +schema):\n%s", diff)
	}
}

// node is a part of a JSON Schema.
type node struct{ Properties map[string]node }

func (n node) keys(prefix string) (keys []string) {
	for name, inner := range n.Properties {
		if len(inner.Properties) > 0 {
			keys = append(keys, inner.keys(prefix+name+".")...)
		} else {
			keys = append(keys, prefix+name)
		}
	}
	return keys
}

func keysOf(section map[string]any, prefix string) (keys []string) {
	for name, value := range section {
		if slices.Contains(chartOwned, prefix+name) {
			continue
		}
		if inner, ok := value.(map[string]any); ok {
			keys = append(keys, keysOf(inner, prefix+name+".")...)
		} else {
			keys = append(keys, prefix+name)
		}
	}
	return keys
}
