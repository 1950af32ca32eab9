package configs_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/configs"
	"github.com/eventhook/eventhook/targets"
	"github.com/eventhook/eventhook/verify"
)

// secretPlaces is a file of tenants with a secret in every field for secrets.
const secretPlaces = `
tenants:
  - slug: acme
    sources:
      - {slug: a, provider: meta, secrets: ["$1", other], options: {verify_token: "$1"}}
      - {slug: b, verifier: {type: hmac, header: X, secrets: ["$1"]}}
      - {slug: c, verifier: {type: api_key, header: X, values: ["$1"]}}
      - {slug: d, verifier: {type: basic_auth, username: u, password: "$1"}}
      - {slug: e, verifier: {type: none}, routes: [{name: r, targets: [{type: http, url: "https://a.example", auth_header: "$1"}]}]}
`

// inFolder writes files into one folder and loads the first, a file of tenants.
func inFolder(t *testing.T, text string, files map[string]string, env map[string]string) ([]eventhook.TenantConfig, error) {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, "tenants.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return configs.LoadTenants(path, lookup(env))
}

// allSecrets returns the distinct secrets of tenants.
func allSecrets(t *testing.T, tenants []eventhook.TenantConfig) (all []string) {
	t.Helper()
	for _, s := range tenants[0].Sources {
		spec, err := verify.ReadSpec(s.Verifier)
		if err != nil {
			t.Fatal(err)
		}
		spec.MapSecrets(func(_, secret string) string {
			all = append(all, secret)
			return secret
		})
		for _, r := range s.Routes {
			all = append(all, targetSecrets(t, r)...)
		}
	}
	return all
}

// targetSecrets returns the secrets of the targets of a route.
func targetSecrets(t *testing.T, r eventhook.Route) (all []string) {
	t.Helper()
	for _, target := range r.Targets {
		_, err := targets.Format(target, func(_, secret string) string {
			all = append(all, secret)
			return secret
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

func TestSecretsAreReadFromFiles(t *testing.T) {
	absolute := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(absolute, []byte("far away"), 0o600); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{"secrets/a.txt": "it's \"quoted\": #1 \r\n\n", "plain": "x"}
	for _, c := range []struct{ claim, written, want string }{
		{"a text", "hiddenText", "hiddenText"},
		{"a file in a folder, without the white space at its end", "file:secrets/a.txt", "it's \"quoted\": #1"},
		{"an absolute path", "file:" + absolute, "far away"},
		{"a path with a variable", "file:${DIR}/a.txt", "it's \"quoted\": #1"},
		{"the value of a variable is not a path", "${ODD}", "file:plain"},
	} {
		t.Run(c.claim, func(t *testing.T) {
			got, err := inFolder(t, strings.ReplaceAll(secretPlaces, "$1", c.written), files, map[string]string{"DIR": "secrets", "ODD": "file:plain"})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{c.want, "other", c.want, c.want, c.want, c.want, c.want}, allSecrets(t, got)); diff != "" {
				t.Errorf("secrets (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFileReferencesApplyToSecretsOnly(t *testing.T) {
	got, err := inFolder(t, "tenants: [{slug: a, name: \"file:plain\", sources: [{slug: s, verifier: {type: none}, response: {status: 200, body: \"file:plain\"}}]}]",
		map[string]string{"plain": "x"}, nil)
	if err != nil || got[0].Name != "file:plain" || got[0].Sources[0].Response.Body != "file:plain" {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestFilesThatCannotBeRead(t *testing.T) {
	places := []string{"5: tenants[0].sources[0].options.verify_token", "5: tenants[0].sources[0].secrets[0]", "6: tenants[0].sources[1].verifier.secrets[0]",
		"7: tenants[0].sources[2].verifier.values[0]", "8: tenants[0].sources[3].verifier.password",
		"9: tenants[0].sources[4].routes[0].targets[0].auth_header"}
	for _, c := range []struct{ claim, path, content, want string }{
		{"a missing file", "nowhere", "", `the file "nowhere" cannot be read: no such file or directory`},
		{"a folder", ".", "", `the file "." cannot be read: is a directory`},
		{"an empty path", "", "", `the file "" cannot be read: is a directory`},
		{"an empty file", "odd", "", `the file "odd" is empty`},
		{"a file of white space", "odd", " \n\t\n", `the file "odd" is empty`},
		{"a file that is not UTF-8", "odd", "hiddenText\xff", `the file "odd" is not UTF-8`},
		{"a file that is too large", "odd", strings.Repeat("hiddenText", 20_000), `the file "odd" has more than 65536 bytes`},
	} {
		t.Run(c.claim, func(t *testing.T) {
			_, err := inFolder(t, strings.ReplaceAll(secretPlaces, "$1", "file:"+c.path), map[string]string{"odd": c.content}, nil)
			var want []string
			for _, place := range places {
				want = append(want, "tenants.yaml:"+place)
			}
			if diff := cmp.Diff(want, locations(t, err)); diff != "" {
				t.Fatalf("places (-want +got):\n%s", diff)
			}
			if text := err.Error(); strings.Count(text, c.want) != len(places) || strings.Contains(text, "hiddenText") {
				t.Errorf("got %q, want %q at each place", text, c.want)
			}
		})
	}
}

func TestFaultsContainNoFileContents(t *testing.T) {
	for claim, text := range map[string]string{
		"beside an invalid field":      "{slug: s, provider: github, secrets: [\"file:hiddenText\"], max_body_bytes: -1}",
		"in the wrong encoding":        "{slug: s, verifier: {type: hmac, header: X, secrets: [\"file:hiddenText\"], secret_encoding: hex}}",
		"with significant white space": "{slug: s, verifier: {type: basic_auth, username: \"\", password: \"file:hiddenText\"}}",
		"in a field that is not used":  "{slug: s, verifier: {type: none, secrets: [\"file:hiddenText\"]}}",
	} {
		_, err := inFolder(t, "tenants: [{slug: a, sources: ["+text+"]}]", map[string]string{"hiddenText": hiddenText}, nil)
		if err == nil || strings.Contains(err.Error(), hiddenText) || strings.Contains(err.Error(), hiddenText[:7]) {
			t.Errorf("%s: got %v, want a fault without the content", claim, err)
		}
	}
}

func TestVariablesMustBeUTF8(t *testing.T) {
	_, err := inFolder(t, strings.ReplaceAll(secretPlaces, "$1", "${ODD}"), nil, map[string]string{"ODD": "hiddenText\xff"})
	if err == nil || !strings.Contains(err.Error(), "the variable ODD is not UTF-8") || strings.Contains(err.Error(), "hiddenText") {
		t.Errorf("got %v, want a fault with the name of the variable", err)
	}
}
