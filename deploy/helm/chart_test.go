// Package helm_test renders the Helm chart and checks the result.
package helm_test

import (
	"bytes"
	"encoding/base64"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v4"

	"github.com/eventhook/eventhook/configs"
)

var update = flag.Bool("update", false, "write the golden files")

// helmProgram returns the path of helm: of the variable HELM, which must exist, else of
// .cache/bin or of the system, or "".
func helmProgram() string {
	if program := os.Getenv("HELM"); program != "" {
		return program
	}
	const installed = "../../.cache/bin/helm-v3.16.4"
	if _, err := os.Stat(installed); err == nil {
		return installed
	}
	program, err := exec.LookPath("helm")
	if err != nil {
		return ""
	}
	return program
}

// helm runs helm and returns its output. Without helm, the test is skipped.
func helm(t *testing.T, args ...string) (string, error) {
	t.Helper()
	program := helmProgram()
	if program == "" {
		t.Skip("no helm: `make chart` installs it and runs this test")
	}
	cmd := exec.Command(program, args...)
	home := t.TempDir() // no plugins and repositories of the user
	cmd.Env = append(os.Environ(), "HELM_CONFIG_HOME="+home, "HELM_CACHE_HOME="+home, "HELM_DATA_HOME="+home)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, &stderr)
	}
	return string(out), nil
}

// template renders the chart with a file of ci and more arguments.
func template(t *testing.T, values string, args ...string) (string, error) {
	t.Helper()
	return helm(t, append([]string{"template", "eventhook", "eventhook", "--namespace", "webhooks", "--kube-version", "1.31.0",
		"-f", "eventhook/ci/" + values + ".yaml"}, args...)...)
}

func mustTemplate(t *testing.T, values string, args ...string) string {
	t.Helper()
	out, err := template(t, values, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestLint(t *testing.T) {
	for _, values := range []string{"required", "roles"} {
		if _, err := helm(t, "lint", "--strict", "eventhook", "-f", "eventhook/ci/"+values+".yaml"); err != nil {
			t.Errorf("%s: %v", values, err)
		}
	}
}

func TestRendering(t *testing.T) {
	for _, values := range []string{"required", "roles"} {
		golden := filepath.Join("testdata", values+".yaml")
		got := mustTemplate(t, values)
		if *update {
			if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("%s (-golden +rendered; accept with go test ./deploy/helm -update):\n%s", golden, diff)
		}
	}
}

func TestWrongValuesAreErrors(t *testing.T) {
	for _, c := range []struct {
		claim, want string
		set         []string
	}{
		{"misspelled", "Additional property replica is not allowed", []string{"replica=3"}},
		{"misspelled in a role", "Additional property replica is not allowed", []string{"roles.all.replica=3"}},
		{"an unknown role", "Additional property worker is not allowed", []string{"roles.worker.enabled=true"}},
		{"a misspelled setting of the gateway", "Additional property levell is not allowed", []string{"settings.log.levell=debug"}},
		{"another type", "Expected: integer", []string{"roleDefaults.replicas=two"}},
		{"no database", "database.existingSecret is required", []string{"database.existingSecret="}},
		{"no admin key", "adminKey.existingSecret is required", []string{"adminKey.existingSecret="}},
		{"no encryption keys", "encryptionKeys.existingSecret is required", []string{"encryptionKeys.existingSecret="}},
		{"no role", "no deployment has the role ingest", []string{"roles.all.enabled=false"}},
		{"a role is missing", "no deployment has the role dispatch", []string{"roles.all.enabled=false", "roles.ingest.enabled=true", "roles.api.enabled=true", "roles.route.enabled=true"}},
		{"an ingress without a host", "ingress.host is required", []string{"ingress.enabled=true"}},
	} {
		t.Run(c.claim, func(t *testing.T) {
			_, err := template(t, "required", "--set", strings.Join(c.set, ","))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
	if _, err := template(t, "roles", "--set", "ingress.ingestHost="); err == nil || !strings.Contains(err.Error(), "ingress.ingestHost is required") {
		t.Errorf("without a host of webhooks: got %v, want an error", err)
	}
}

// object is an object of Kubernetes, as far as the tests read it.
type object struct {
	Kind     string
	Metadata struct {
		Name, Namespace string
		Labels          map[string]string
	}
	Data map[string]string
	Spec struct {
		Groups   any
		Template struct{ Spec pod }
	}
}

type pod struct {
	EnableServiceLinks           *bool `yaml:"enableServiceLinks"`
	AutomountServiceAccountToken *bool `yaml:"automountServiceAccountToken"`
	SecurityContext              struct {
		RunAsNonRoot   bool                  `yaml:"runAsNonRoot"`
		SeccompProfile struct{ Type string } `yaml:"seccompProfile"`
	} `yaml:"securityContext"`
	Containers []struct {
		Args            []string
		Env             []variable
		SecurityContext struct {
			AllowPrivilegeEscalation *bool                   `yaml:"allowPrivilegeEscalation"`
			ReadOnlyRootFilesystem   bool                    `yaml:"readOnlyRootFilesystem"`
			Capabilities             struct{ Drop []string } `yaml:"capabilities"`
		} `yaml:"securityContext"`
	}
}

type variable struct {
	Name, Value string
	ValueFrom   struct {
		SecretKeyRef struct{ Name, Key string } `yaml:"secretKeyRef"`
	} `yaml:"valueFrom"`
}

func objects(t *testing.T, rendered string) (list []object) {
	t.Helper()
	for document := range strings.SplitSeq(rendered, "\n---\n") {
		var o object
		if err := yaml.Unmarshal([]byte(document), &o); err != nil {
			t.Fatalf("%v in:\n%s", err, document)
		}
		list = append(list, o)
	}
	return list
}

// secrets are values for the variables that come from secrets.
var secrets = map[string]string{"DATABASE_URL": "postgres://db/eventhook", "DATABASE_DIRECT_URL": "postgres://direct/eventhook",
	"DATABASE_READ_URL": "postgres://replica/eventhook", "EVENTHOOK_ADMIN_KEY": "ehk_an-admin-key-for-tests",
	"EVENTHOOK_ADMIN_READ_KEY": "ehk_a-read-key-for-tests", "EVENTHOOK_ENCRYPTION_KEYS": base64.StdEncoding.EncodeToString(make([]byte, 32))}

// The program accepts the variables and the settings of each container.
func TestTheProgramAcceptsTheConfigurationOfEachPod(t *testing.T) {
	for _, values := range []string{"required", "roles"} {
		list := objects(t, mustTemplate(t, values))
		file := filepath.Join(t.TempDir(), "eventhook.yaml")
		var roles []string
		for _, o := range list {
			if o.Kind == "ConfigMap" {
				if err := os.WriteFile(file, []byte(o.Data["eventhook.yaml"]), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, o := range list {
			for _, c := range o.Spec.Template.Spec.Containers {
				environ := environOf(t, c.Env)
				if o.Kind == "Job" { // migrate needs no keys
					environ = append(environ, "EVENTHOOK_ADMIN_KEY="+secrets["EVENTHOOK_ADMIN_KEY"], "EVENTHOOK_ENCRYPTION_KEYS="+secrets["EVENTHOOK_ENCRYPTION_KEYS"])
				}
				config, err := configs.Load(configs.Sources{File: file, Environ: environ})
				if err != nil {
					t.Errorf("%s: %s %s: %v", values, o.Kind, o.Metadata.Name, err)
				}
				if o.Kind == "Deployment" {
					roles = append(roles, config.Roles...)
				}
			}
		}
		slices.Sort(roles)
		if want := slices.Sorted(slices.Values(configs.Roles())); !slices.Equal(roles, want) {
			t.Errorf("%s: the deployments have the roles %v, want %v", values, roles, want)
		}
	}
}

// environOf returns variables in the format of os.Environ, with values for secrets.
func environOf(t *testing.T, list []variable) (environ []string) {
	t.Helper()
	for _, v := range list {
		value := v.Value
		if v.ValueFrom.SecretKeyRef.Name != "" {
			known, ok := secrets[v.Name]
			if !ok {
				t.Errorf("the variable %s comes from a secret, which the test does not expect", v.Name)
			}
			value = known
		} else if _, isSecret := secrets[v.Name]; isSecret {
			t.Errorf("the variable %s has a value, want a reference to a secret", v.Name)
		}
		environ = append(environ, v.Name+"="+value)
	}
	return environ
}

func TestPodsAreConfined(t *testing.T) {
	pods := 0
	for _, o := range objects(t, mustTemplate(t, "roles")) {
		if o.Kind == "Secret" {
			t.Errorf("the chart creates the secret %s, want only references", o.Metadata.Name)
		}
		if o.Metadata.Namespace != "webhooks" {
			t.Errorf("%s %s is in the namespace %q, want webhooks", o.Kind, o.Metadata.Name, o.Metadata.Namespace)
		}
		p := o.Spec.Template.Spec
		for _, c := range p.Containers {
			pods++
			s := c.SecurityContext
			if p.EnableServiceLinks == nil || *p.EnableServiceLinks || p.AutomountServiceAccountToken == nil || *p.AutomountServiceAccountToken {
				t.Errorf("%s %s has service links or a token", o.Kind, o.Metadata.Name)
			}
			if !p.SecurityContext.RunAsNonRoot || p.SecurityContext.SeccompProfile.Type != "RuntimeDefault" || s.AllowPrivilegeEscalation == nil ||
				*s.AllowPrivilegeEscalation || !s.ReadOnlyRootFilesystem || !slices.Equal(s.Capabilities.Drop, []string{"ALL"}) {
				t.Errorf("%s %s is not confined: %+v", o.Kind, o.Metadata.Name, s)
			}
		}
	}
	if pods != 6 {
		t.Errorf("got %d pods, want 5 deployments and a job", pods)
	}
}

func TestPrometheusRuleHasTheAlerts(t *testing.T) {
	var rules struct{ Groups any }
	if err := yaml.Unmarshal([]byte(read(t, "../prometheus/rules.yaml")), &rules); err != nil {
		t.Fatal(err)
	}
	for _, o := range objects(t, mustTemplate(t, "required", "--set", "prometheusRule.enabled=true")) {
		if o.Kind == "PrometheusRule" {
			if diff := cmp.Diff(rules.Groups, o.Spec.Groups); diff != "" {
				t.Errorf("groups (-file +object):\n%s", diff)
			}
			return
		}
	}
	t.Error("no PrometheusRule is rendered")
}

// A copy of the chart's folder can be installed: its files are no links.
func TestTheChartHasTheAlertsAndDashboards(t *testing.T) {
	want := map[string]string{"rules.yaml": "../prometheus/rules.yaml"}
	for _, path := range dashboards(t) {
		want["dashboards/"+filepath.Base(path)] = path
	}
	got := map[string]bool{}
	err := filepath.WalkDir("eventhook/files", func(path string, f fs.DirEntry, err error) error {
		if err != nil || f.IsDir() {
			return err
		}
		name := strings.TrimPrefix(path, "eventhook/files/")
		got[name] = true
		if want[name] == "" || !f.Type().IsRegular() || read(t, path) != read(t, want[name]) {
			t.Errorf("%s is not a copy of a file of deploy: run make chart-files", path)
		}
		return nil
	})
	if err != nil || len(got) != len(want) {
		t.Errorf("the chart has the files %v, %v; want %v: run make chart-files", got, err, want)
	}
}

// dashboards returns the paths of Grafana's dashboards.
func dashboards(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("../grafana/dashboards/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("got the dashboards %q, %v", files, err)
	}
	return files
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestDashboardsAreThoseOfGrafana(t *testing.T) {
	maps := map[string]string{}
	for _, o := range objects(t, mustTemplate(t, "required", "--set", "dashboards.enabled=true")) {
		for name, text := range o.Data {
			if o.Kind == "ConfigMap" && o.Metadata.Labels["grafana_dashboard"] == "1" {
				maps[name] = text
			}
		}
	}
	for _, path := range dashboards(t) {
		want := read(t, path)
		if got := maps[filepath.Base(path)]; strings.TrimSpace(got) != strings.TrimSpace(want) {
			t.Errorf("%s: the config map has %d bytes, want the %d of the file", path, len(got), len(want))
		}
	}
}

// The alerts add the numbers of a job, and select jobs whose name contains eventhook.
func TestEachInstallationHasAJobOfItsOwn(t *testing.T) {
	for _, c := range []struct{ name, set, want string }{
		{"the release", "", "webhooks/eventhook"},
		{"another name", "fullnameOverride=hooks", "webhooks/hooks-eventhook"},
	} {
		rendered := mustTemplate(t, "required", "--set", "serviceMonitor.enabled=true,"+c.set)
		if want := fmt.Sprintf("{targetLabel: job, replacement: %q}", c.want); !strings.Contains(rendered, want) {
			t.Errorf("%s: the ServiceMonitor has no %s", c.name, want)
		}
	}
}

func TestServicesHaveThePortOfTheirScheme(t *testing.T) {
	for want, set := range map[string]string{
		"{name: http, port: 80, targetPort: public}":   "tls.existingSecret=",
		"{name: https, port: 443, targetPort: public}": "tls.existingSecret=eventhook-tls",
		"{name: http, port: 8080, targetPort: public}": "service.port=8080",
	} {
		if !strings.Contains(mustTemplate(t, "required", "--set", set), want) {
			t.Errorf("%s: no service has %s", set, want)
		}
	}
}

var templateCommand = regexp.MustCompile("(?ms)^```sh\n(helm template .*?)^```")

func TestHelmCommandsOfTheRunbook(t *testing.T) {
	if _, err := helm(t, "version"); err != nil {
		t.Fatal(err)
	}
	commands := templateCommand.FindAllStringSubmatch(read(t, "../../docs/operations.md"), -1)
	if len(commands) == 0 {
		t.Fatal("docs/operations.md has no helm template command")
	}
	for _, c := range commands {
		script := exec.Command("sh", "-ec", `helm() { "$PROGRAM" "$@"; }`+"\n"+c[1])
		script.Dir = "../.."
		program, err := filepath.Abs(helmProgram())
		if err != nil {
			t.Fatal(err)
		}
		script.Env = append(os.Environ(), "PROGRAM="+program)
		if out, err := script.CombinedOutput(); err != nil || !strings.Contains(string(out), "kind: Deployment") {
			t.Errorf("%s\n%v\n%.500s", c[1], err, out)
		}
	}
}
