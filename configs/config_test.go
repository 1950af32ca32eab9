package configs_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v4"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/configs"
)

var encryptionKey = base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, 32))

// file writes a temporary file and returns its path.
func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// load calls Load and returns the sorted locations of the faults.
func load(t *testing.T, s configs.Sources) (configs.Config, []string, error) {
	t.Helper()
	c, err := configs.Load(s)
	return c, locations(t, err), err
}

func locations(t *testing.T, err error) []string {
	t.Helper()
	if err == nil {
		return nil
	}
	e, ok := errors.AsType[*eventhook.Error](err)
	if !ok || e.Kind != eventhook.KindInvalid {
		t.Fatalf("got %v, want an error about invalid input", err)
	}
	var at []string
	for _, f := range e.Faults {
		at = append(at, f.Location)
	}
	slices.Sort(at)
	return at
}

func TestDefaultIsValid(t *testing.T) {
	if f := configs.Default().Validate(); len(f) > 0 {
		t.Errorf("got %v, want no fault", f)
	}
	c, at, _ := load(t, configs.Sources{})
	if diff := cmp.Diff(any(configs.Default()), any(c), equalConfigs); diff != "" || at != nil {
		t.Errorf("Load without inputs has faults %v and differs (-default +loaded):\n%s", at, diff)
	}
}

// equalConfigs compares all fields of two configurations. A nil list equals an empty
// list.
var equalConfigs = cmp.Comparer(func(a, b configs.Config) bool {
	for _, c := range []*configs.Config{&a, &b} {
		for _, list := range []*[]string{&c.EncryptionKeys, &c.TrustedProxies, &c.Ingest.TrustedProxies, &c.Outbound.AllowedCIDRs, &c.Portal.FrameAncestors} {
			if len(*list) == 0 {
				*list = nil
			}
		}
	}
	return reflect.DeepEqual(a, b)
})

func TestExampleListsEverySettingWithItsDefault(t *testing.T) {
	c, at, err := load(t, configs.Sources{File: "example.yaml"})
	if at != nil || !cmp.Equal(configs.Default(), c, equalConfigs) {
		t.Errorf("got %+v (%v), want the defaults", c, err)
	}
	raw, err := os.ReadFile("example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := yaml.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	named := namesIn(doc, "")
	want := keysOf(reflect.TypeFor[configs.Config](), "")
	slices.Sort(named)
	slices.Sort(want)
	if diff := cmp.Diff(want, named); diff != "" {
		t.Errorf("settings (-existing +in the example):\n%s", diff)
	}
}

// namesIn returns the keys of all settings in a document.
func namesIn(section map[string]any, prefix string) (names []string) {
	for key, value := range section {
		if inner, ok := value.(map[string]any); ok {
			names = append(names, namesIn(inner, prefix+key+".")...)
		} else {
			names = append(names, prefix+key)
		}
	}
	return names
}

// keysOf returns the keys of all settings of a type.
func keysOf(t reflect.Type, prefix string) []string {
	var keys []string
	for f := range t.Fields() {
		switch key := f.Tag.Get("config"); {
		case key == "-":
		case f.Type.Kind() == reflect.Struct:
			keys = append(keys, keysOf(f.Type, prefix+key+".")...)
		default:
			keys = append(keys, prefix+key)
		}
	}
	return keys
}

func TestEverySettingIsAVariable(t *testing.T) {
	for _, key := range keysOf(reflect.TypeFor[configs.Config](), "") {
		name := "EVENTHOOK_" + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
		if database, ok := map[string]string{"database_url": "DATABASE_URL", "database.direct_url": "DATABASE_DIRECT_URL",
			"database.read_url": "DATABASE_READ_URL"}[key]; ok {
			name = database
		}
		// No setting except data_dir accepts this value.
		_, err := configs.Load(configs.Sources{Environ: []string{name + "=\x00,://"}})
		at := locations(t, err)
		heard := slices.ContainsFunc(at, func(l string) bool { return strings.HasPrefix(l, key) })
		if free := key == "data_dir"; slices.Contains(at, name) || heard == free {
			t.Errorf("%s: faults at %v; want one at %s", name, at, key)
		}
	}
}

func TestFlagsOverrideVariablesOverrideTheFile(t *testing.T) {
	path := file(t, "c.yaml", "listen: \":1\"\nmanagement_listen: \":2\"\npublic_url: http://file\ningest: {writers: 7}\n")
	c, at, err := load(t, configs.Sources{
		File:    path,
		Environ: []string{"EVENTHOOK_MANAGEMENT_LISTEN=:3", "EVENTHOOK_PUBLIC_URL=http://env", "EVENTHOOK_LISTEN=", "PATH=/bin"},
		Flags:   map[string]string{"public_url": "http://flag", "log.level": "debug"},
	})
	if at != nil {
		t.Fatal(err)
	}
	want := configs.Default()
	want.Listen, want.ManagementListen, want.PublicURL, want.Log.Level = ":1", ":3", "http://flag", "debug"
	want.Ingest.Writers, want.Ingest.PublicURL = 7, "http://flag"
	if !cmp.Equal(want, c, equalConfigs) {
		t.Errorf("got %+v, want %+v", c, want)
	}
}

func TestValues(t *testing.T) {
	other := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{8}, 32))
	for _, c := range []struct {
		claim, yaml string
		env         []string
		got         func(configs.Config) any
		want        any
	}{
		{"a duration", "stop_timeout: 1m30s", nil, func(c configs.Config) any { return c.StopTimeout }, 90 * time.Second},
		{"a duration in a variable", "", []string{"EVENTHOOK_INGEST_COMMIT_TIMEOUT=5s"}, func(c configs.Config) any { return c.Ingest.CommitTimeout }, 5 * time.Second},
		{"a list", "trusted_proxies: [10.0.0.0/8, 192.0.2.0/24]", nil, func(c configs.Config) any { return c.TrustedProxies }, []string{"10.0.0.0/8", "192.0.2.0/24"}},
		{"a list with commas", "", []string{"EVENTHOOK_TRUSTED_PROXIES= 10.0.0.0/8, 192.0.2.0/24 ,"}, func(c configs.Config) any { return c.TrustedProxies }, []string{"10.0.0.0/8", "192.0.2.0/24"}},
		{"a list is copied to its section", "trusted_proxies: [10.0.0.0/8]", nil, func(c configs.Config) any { return c.Ingest.TrustedProxies }, []string{"10.0.0.0/8"}},
		{"keys, the newest first", "", []string{"EVENTHOOK_ENCRYPTION_KEYS=" + encryptionKey + "," + other}, func(c configs.Config) any { return c.EncryptionKeys }, []string{encryptionKey, other}},
		{"a number in quotes", `lease_seconds: "45"`, nil, func(c configs.Config) any { return c.Lease() }, 45 * time.Second},
		{"a large number", "ingest: {in_flight_bytes: 5000000000}", nil, func(c configs.Config) any { return c.Ingest.InFlightBytes }, int64(5_000_000_000)},
		{"a fraction", "", []string{"EVENTHOOK_INGEST_FORGERIES_PER_SEC=0.5"}, func(c configs.Config) any { return c.Ingest.ForgeriesPerSec }, 0.5},
		{"a whole number for a fraction", "ingest: {forgeries_per_sec: 3}", nil, func(c configs.Config) any { return c.Ingest.ForgeriesPerSec }, 3.0},
		{"a boolean", "", []string{"EVENTHOOK_OUTBOUND_ALLOW_PRIVATE_NETWORKS=true"}, func(c configs.Config) any { return c.Outbound.AllowPrivateNetworks }, true},
		{"allowed networks", "", []string{"EVENTHOOK_OUTBOUND_ALLOWED_CIDRS=10.1.0.0/16,fd00::/8"},
			func(c configs.Config) any { return fmt.Sprint(c.Outbound.Prefixes()) }, "[10.1.0.0/16 fd00::/8]"},
		{"a proxy", "", []string{"EVENTHOOK_OUTBOUND_PROXY_URL=http://u:p@proxy.example:3128/"}, func(c configs.Config) any { return c.Outbound.Proxy().Host }, "proxy.example:3128"},
		{"retention in days", "", []string{"EVENTHOOK_RETENTION_EVENTS_DAYS=7", "EVENTHOOK_RETENTION_BODIES_DAYS=3", "EVENTHOOK_RETENTION_DELIVERIES_DAYS=0", "EVENTHOOK_RETENTION_AUDIT_DAYS=0"},
			func(c configs.Config) any { return c.Retention }, configs.Retention{EventsDays: 7, BodiesDays: 3}},
		{"the default retention of the audit log", "", nil, func(c configs.Config) any { return c.Retention.AuditDays }, 400},
		{"an empty section", "ingest:\nlog:\n  level: warn\n  format:\n", nil, func(c configs.Config) any { return fmt.Sprint(c.Ingest.Writers, c.Log) }, fmt.Sprint(2, configs.Log{Level: "warn", Format: "text"})},
		{"a file with only a comment", "# nothing\n", nil, func(c configs.Config) any { return c.Listen }, ":8080"},
	} {
		t.Run(c.claim, func(t *testing.T) {
			got, at, err := load(t, configs.Sources{File: file(t, "c.yaml", c.yaml), Environ: c.env})
			if at != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, c.got(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestDatabaseURL(t *testing.T) {
	for _, c := range []struct {
		claim, url string
		isValid    bool
	}{
		{"without a port", "postgres://u@h/d", true},
		{"with a port and an sslmode", "postgresql://u:p@h:65535/d?sslmode=verify-full&connect_timeout=5", true},
		{"a socket", "postgres:///d?host=/run/postgresql", true},
		{"an IPv6 address", "postgres://[::1]:5432/d", true},
		{"several hosts", "postgres://a:5432,b,c:5433/d", true},
		{"parameters", "host=db dbname=d", true},
		{"an empty sslmode", "postgres://h/d?sslmode=", true},
		{"another database", "mysql://h/d", false},
		{"a word", "db", false},
		{"a port that is not a number", "postgres://h:x/d", false},
		{"a port above 65535", "postgres://x:99999/y", false},
		{"port 0", "postgres://h:0/d", false},
		{"a port above 65535 of the first host", "postgres://a:99999,b:5432/d", false},
		{"an unknown sslmode", "postgres://h/d?sslmode=foo", false},
	} {
		t.Run(c.claim, func(t *testing.T) {
			config := configs.Default()
			config.DatabaseURL, config.AdminKey, config.EncryptionKeys = c.url, "long enough this key", []string{encryptionKey}
			if faults := config.Validate(); (len(faults) == 0) != c.isValid || !c.isValid && faults[0].Location != "database_url" {
				t.Errorf("%s: got faults %v, want valid %t", c.url, faults, c.isValid)
			}
		})
	}
}

func TestLoadReportsEveryFaultByKey(t *testing.T) {
	const db = "database_url: postgres://u@h/d\nadmin_key: long enough this key\n"
	for _, c := range []struct {
		claim, yaml string
		env         []string
		want        []string
	}{
		{"an unknown key", "listn: \":1\"", nil, []string{"listn"}},
		{"an unknown key in a section", "ingest: {writerz: 1}", nil, []string{"ingest.writerz"}},
		{"an unknown section", "ingress: {writers: 1}", nil, []string{"ingress"}},
		{"a text instead of a section", "ingest: 5", nil, []string{"ingest"}},
		{"a section instead of a text", "listen: {port: 1}", nil, []string{"listen"}},
		{"a word instead of a number", "lease_seconds: soon", nil, []string{"lease_seconds"}},
		{"a number with a fraction", "lease_seconds: 1.5", nil, []string{"lease_seconds"}},
		{"a boolean instead of a number", "lease_seconds: true", nil, []string{"lease_seconds"}},
		{"a number instead of a boolean", "outbound: {allow_private_networks: 1}", nil, []string{"outbound.allow_private_networks"}},
		{"a duration without a unit", "stop_timeout: 30", nil, []string{"stop_timeout"}},
		{"a number instead of a text", "listen: 8080", nil, []string{"listen"}},
		{"a list of numbers", "trusted_proxies: [1]", nil, []string{"trusted_proxies"}},
		{"an invalid address", "listen: here", nil, []string{"listen"}},
		{"an invalid URL", "public_url: hooks.example.com", nil, []string{"public_url"}},
		{"a URL of another database", "database_url: mysql://h/d\nencryption_keys: [" + encryptionKey + "]\nadmin_key: long enough this key", nil, []string{"database_url"}},
		{"no keys for a database", "database_url: postgres://u@h/d", nil, []string{"admin_key", "encryption_keys"}},
		{"keys of a wrong length", db + "encryption_keys: [" + encryptionKey + ", c2hvcnQ=, \"?\"]", nil, []string{"encryption_keys[1]", "encryption_keys[2]"}},
		{"a short admin key", "admin_key: short", nil, []string{"admin_key"}},
		{"a short admin key beside a long one", "admin_key: long enough this key,short", nil, []string{"admin_key"}},
		{"a comma without an admin key after it", "", []string{"EVENTHOOK_ADMIN_KEY=long enough this key,"}, []string{"admin_key"}},
		{"a short key for reading", "", []string{"EVENTHOOK_ADMIN_READ_KEY=short"}, []string{"admin_read_key"}},
		{"a key for reading that is an admin key", "admin_key: long enough this key\nadmin_read_key: another long key of it,long enough this key", nil, []string{"admin_read_key"}},
		{"too many admin keys", "admin_key: '" + strings.Repeat("long enough this key,", 11) + "'", nil, []string{"admin_key"}},
		{"no folder and no database", `data_dir: ""`, nil, []string{"data_dir"}},
		{"a trusted proxy that is not a network", "", []string{"EVENTHOOK_TRUSTED_PROXIES=10.0.0.0/8,10.0.0.1"}, []string{"trusted_proxies[1]"}},
		{"a proxy without a host", "outbound: {proxy_url: 'http://:3128'}", nil, []string{"outbound.proxy_url"}},
		{"a proxy of another kind", "outbound: {proxy_url: 'ftp://proxy:3128'}", nil, []string{"outbound.proxy_url"}},
		{"a proxy with a path", "outbound: {proxy_url: 'http://proxy:3128/a'}", nil, []string{"outbound.proxy_url"}},
		{"invalid networks", "outbound: {allowed_cidrs: [10.0.0.0/8, 10.0.0.1, internal]}", nil, []string{"outbound.allowed_cidrs[1]", "outbound.allowed_cidrs[2]"}},
		{"unknown words", "log: {level: loud, format: xml}", nil, []string{"log.format", "log.level"}},
		{"faults of other packages", "ingest: {writers: 0}\nroute: {batch_size: 0}", nil, []string{"ingest.writers", "route.batch_size"}},
		{"faults of all kinds", "listn: 1\nlease_seconds: x\nlog: {level: loud}\n", []string{"EVENTHOOK_STOP_TIMEOUT=x", "EVENTHOOK_LISTEN=x"},
			[]string{"lease_seconds", "listen", "listn", "log.level", "stop_timeout"}},
		{"invalid YAML", "a: b: c", nil, []string{"c.yaml:1"}},
		{"a text instead of a mapping", "just a text", nil, []string{"c.yaml:1"}},
		{"a key twice", "listen: \":1\"\nlisten: \":2\"", nil, []string{"c.yaml:2"}},
		{"a key of a section twice", "log:\n  level: info\n  level: warn", nil, []string{"c.yaml:3"}},
		{"a second document", "listen: \":1\"\n---\nlisten: \":2\"", nil, []string{"c.yaml"}},
		{"not a number", "ingest: {forgeries_per_sec: .nan}", nil, []string{"ingest.forgeries_per_sec"}},
		{"an infinite number in a variable", "", []string{"EVENTHOOK_INGEST_FORGERIES_PER_SEC=inf"}, []string{"ingest.forgeries_per_sec"}},
		{"a key that cannot be read is not also missing", "database_url: postgres://u@h/d\nadmin_key: 12345678901234567890\nencryption_keys: [" + encryptionKey + "]", nil, []string{"admin_key"}},
		{"a file that cannot be read beside a database", "a: b: c", []string{"DATABASE_URL=postgres://u@h/d"}, []string{"c.yaml:1"}},
	} {
		t.Run(c.claim, func(t *testing.T) {
			_, at, err := load(t, configs.Sources{File: file(t, "c.yaml", c.yaml), Environ: c.env})
			if diff := cmp.Diff(c.want, at); diff != "" {
				t.Errorf("%v: locations (-want +got):\n%s", err, diff)
			}
		})
	}
	if _, at, _ := load(t, configs.Sources{File: "nowhere.yaml"}); !cmp.Equal(at, []string{"config"}) {
		t.Errorf("a missing file: faults at %v, want config", at)
	}
	if _, at, _ := load(t, configs.Sources{Flags: map[string]string{"lease_seconds": "x"}}); !cmp.Equal(at, []string{"lease_seconds"}) {
		t.Errorf("a flag: faults at %v, want lease_seconds", at)
	}
}

// hiddenText is a secret that no output may contain.
const hiddenText = "Hidden_text+2"

func TestErrorsContainNoSecret(t *testing.T) {
	for claim, c := range map[string]struct {
		yaml string
		env  []string
	}{
		"a database URL that cannot be parsed":   {env: []string{"DATABASE_URL=postgres://u:" + hiddenText + "%zz@h:port/d"}},
		"a database URL of another kind":         {env: []string{"DATABASE_URL=mysql://u:" + hiddenText + "@h/d"}},
		"a proxy of another kind":                {env: []string{"EVENTHOOK_OUTBOUND_PROXY_URL=ftp://u:" + hiddenText + "@h"}},
		"a short admin key":                      {env: []string{"EVENTHOOK_ADMIN_KEY=" + hiddenText}},
		"a short key for reading":                {env: []string{"EVENTHOOK_ADMIN_READ_KEY=" + hiddenText}},
		"an invalid encryption key":              {env: []string{"EVENTHOOK_ENCRYPTION_KEYS=" + hiddenText}},
		"a database URL as the address":          {env: []string{"EVENTHOOK_LISTEN=postgres://u:" + hiddenText + "@h/d"}},
		"a database URL as the public URL":       {env: []string{"EVENTHOOK_PUBLIC_URL=postgres://u:" + hiddenText + "@h/d"}},
		"a secret as the log level":              {env: []string{"EVENTHOOK_LOG_LEVEL=" + hiddenText}},
		"a secret as a network":                  {env: []string{"EVENTHOOK_OUTBOUND_ALLOWED_CIDRS=" + hiddenText}},
		"a secret as a trusted proxy":            {env: []string{"EVENTHOOK_TRUSTED_PROXIES=" + hiddenText}},
		"a list instead of a secret":             {yaml: "admin_key: [" + hiddenText + "]"},
		"a mapping instead of a secret":          {yaml: "database_url: {password: " + hiddenText + "}"},
		"a mapping instead of a list of secrets": {yaml: "encryption_keys: {a: " + hiddenText + "}"},
		"a secret instead of a number":           {yaml: "lease_seconds: " + hiddenText},
		"a secret instead of a duration":         {yaml: "stop_timeout: " + hiddenText},
		"a secret instead of a section":          {yaml: "ingest: " + hiddenText},
		"a secret as the whole file":             {yaml: hiddenText},
		"a secret twice":                         {yaml: "admin_key: " + hiddenText + "\nadmin_key: " + hiddenText},
		"a secret in broken YAML":                {yaml: "admin_key: \"" + hiddenText},
		"a secret that reads as an alias":        {yaml: "admin_key: *" + hiddenText[:9]},
		"a secret that reads as a tag":           {yaml: "lease_seconds: !" + hiddenText + " x"},
	} {
		t.Run(claim, func(t *testing.T) {
			_, err := configs.Load(configs.Sources{File: file(t, "c.yaml", c.yaml), Environ: c.env})
			if err == nil {
				t.Fatal("got no error")
			}
			if strings.Contains(err.Error(), hiddenText) || strings.Contains(err.Error(), hiddenText[:7]) {
				t.Errorf("the error shows the secret: %v", err)
			}
		})
	}
}

func TestConfigPrintsWithoutSecrets(t *testing.T) {
	c := configs.Default()
	c.DatabaseURL, c.AdminKey, c.EncryptionKeys = "postgres://u:"+hiddenText+"@h/d", hiddenText, []string{hiddenText, hiddenText}
	c.Outbound.ProxyURL = "http://u:" + hiddenText + "@proxy:3128"
	c.Ingest.Log.URL = "nats://u:" + hiddenText + "@nats:4222"
	var texts bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		fmt.Fprintf(&texts, verb+"\n", c)
		fmt.Fprintf(&texts, verb+"\n", &c)
		fmt.Fprintf(&texts, verb+"\n", struct{ C configs.Config }{c})
	}
	for _, log := range []*slog.Logger{slog.New(slog.NewTextHandler(&texts, nil)), slog.New(slog.NewJSONHandler(&texts, nil))} {
		log.Info("x", "config", c, "pointer", &c, "inside", struct{ C configs.Config }{c})
	}
	raw, err := json.Marshal(&c)
	if err != nil {
		t.Fatal(err)
	}
	texts.Write(raw)
	if s := texts.String(); strings.Contains(s, hiddenText) || strings.Contains(s, fmt.Sprintf("%x", hiddenText)) {
		t.Errorf("the output contains a secret:\n%s", s)
	}
	if s := fmt.Sprintf("%+v", c); !strings.Contains(s, "Listen::8080") || !strings.Contains(s, "AdminKey:[redacted]") {
		t.Errorf("got %s, want the settings that are not secret", s)
	}
	if c.AdminKey != hiddenText || c.EncryptionKeys[0] != hiddenText {
		t.Error("printing changed the Config")
	}
}

func TestConfigValidateChangesNothing(t *testing.T) {
	c := configs.Default()
	c.TrustedProxies, c.Listen = []string{"x"}, "y"
	before := c
	c.Validate()
	if !cmp.Equal(before, c, equalConfigs) {
		t.Error("Validate changed the Config")
	}
}

func TestAdminKeysAreSeparatedByCommas(t *testing.T) {
	c, _, err := load(t, configs.Sources{Environ: []string{"EVENTHOOK_ADMIN_KEY=the newest key of all, the key before it", "EVENTHOOK_ADMIN_READ_KEY=a key for dashboards"}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([][]string{{"the newest key of all", "the key before it"}, {"a key for dashboards"}}, [][]string{c.AdminKeys(), c.AdminReadKeys()}); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
	if got := fmt.Sprintf("%+v", c); strings.Contains(got, "the key before it") || strings.Contains(got, "dashboards") {
		t.Errorf("the printed configuration shows a key: %s", got)
	}
	if keys := (configs.Config{}).AdminKeys(); len(keys) != 0 {
		t.Errorf("without keys: got %q", keys)
	}
}

func TestRoles(t *testing.T) {
	for _, c := range []struct{ claim, value, want string }{
		{"one", "ingest", "[ingest]"},
		{"several, with spaces", " api , route", "[api route]"},
		{"empty keeps the default", "", "[ingest api route dispatch console]"},
		{"only spaces", " ", "roles is empty, want one or more of ingest, api, route, dispatch, console"},
		{"unknown", "ingest,worker", `roles[1] "worker" is not a role, want one or more of ingest, api, route, dispatch, console`},
		{"another case", "Ingest", `roles[0] "Ingest" is not a role, want one or more of ingest, api, route, dispatch, console`},
	} {
		config, err := configs.Load(configs.Sources{Environ: []string{"EVENTHOOK_ROLES=" + c.value}})
		got := fmt.Sprint(config.Roles)
		if e, isFault := errors.AsType[*eventhook.Error](err); isFault {
			got = e.Faults[0].Location + " " + e.Faults[0].Message
		}
		if got != c.want {
			t.Errorf("%s: got %s, want %s", c.claim, got, c.want)
		}
	}
	if _, at, _ := load(t, configs.Sources{Flags: map[string]string{"roles": ""}}); !slices.Equal(at, []string{"roles"}) {
		t.Errorf("an empty flag has faults at %v, want one at roles", at)
	}
}
