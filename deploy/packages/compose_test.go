package packages_test

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

type composeFile struct {
	Services map[string]struct {
		Build       string
		Image       string
		Environment map[string]string
		Volumes     []string
		Ports       []string
		Healthcheck struct{ Test []string }
	}
	Volumes map[string]any
}

// composeRequired matches a variable that must be set, with its hint.
var composeRequired = regexp.MustCompile(`\$\{(\w+):\?create one with openssl rand -(?:hex|base64) \d+\}`)

func TestTheComposeFile(t *testing.T) {
	raw, err := os.ReadFile(top + "/compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file composeFile
	if err := yaml.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"gateway", "database", "prometheus", "grafana"} {
		service, ok := file.Services[name]
		if !ok {
			t.Errorf("there is no service %s", name)
		}
		if service.Build == "" && !regexp.MustCompile(`:v?\d+`).MatchString(service.Image) {
			t.Errorf("%s: image %q has no version", name, service.Image)
		}
		for _, port := range service.Ports {
			if !strings.HasPrefix(port, "127.0.0.1:") && port != "8080:8080" {
				t.Errorf("%s: port %s is public", name, port)
			}
		}
		for _, volume := range service.Volumes {
			source, _, _ := strings.Cut(volume, ":")
			if _, isNamed := file.Volumes[source]; isNamed {
				continue
			}
			if _, err := os.Stat(filepath.Join(top, source)); err != nil || !strings.HasSuffix(volume, ":ro") {
				t.Errorf("%s: volume %s: %v; want an existing file, read-only", name, volume, err)
			}
		}
	}
	if got := file.Services["gateway"].Healthcheck.Test; strings.Join(got, " ") != "CMD /eventhook health" {
		t.Errorf("health check of the gateway: got %q", got)
	}
	required := map[string]bool{}
	for _, m := range composeRequired.FindAllStringSubmatch(string(raw), -1) {
		required[m[1]] = true
	}
	for _, name := range []string{"EVENTHOOK_ADMIN_KEY", "EVENTHOOK_ENCRYPTION_KEYS", "POSTGRES_PASSWORD", "GRAFANA_PASSWORD"} {
		if !required[name] {
			t.Errorf("%s has a default, or its error has no hint", name)
		}
	}
	dir := t.TempDir()
	shell(t, dir, strings.Join(pageBlocks(t), "\n"))
	variables, err := os.ReadFile(filepath.Join(dir, ".env"))
	if err != nil {
		t.Fatal(err)
	}
	for name := range required {
		if !regexp.MustCompile(`(?m)^` + name + `=.{20,}$`).Match(variables) {
			t.Errorf("the commands of the runbook do not set %s", name)
		}
	}
	for _, forbidden := range []string{"5432:", "--web.enable-admin-api"} {
		if strings.Contains(string(raw), `"`+forbidden) || strings.Contains(string(raw), "- "+forbidden) {
			t.Errorf("compose.yaml has %s", forbidden)
		}
	}
}

// The file of a cluster has its services with the settings that keep data and secrets safe.
// TestTheClusterOfTheComposeFileLosesNothing in cmd/eventhook runs them.
func TestTheComposeFileOfACluster(t *testing.T) {
	raw, err := os.ReadFile(top + "/deploy/compose.cluster.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file composeFile
	if err := yaml.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"gateway-1", "gateway-2", "nats-1", "nats-2", "nats-3", "database"} {
		service, ok := file.Services[name]
		if !ok || len(service.Healthcheck.Test) == 0 {
			t.Errorf("there is no service %s with a health check", name)
		}
		if service.Build == "" && !regexp.MustCompile(`:\d+`).MatchString(service.Image) {
			t.Errorf("%s: image %q has no version", name, service.Image)
		}
		for _, port := range service.Ports {
			if !strings.HasPrefix(port, "127.0.0.1:") && !strings.HasSuffix(port, ":8080") {
				t.Errorf("%s: port %s is public", name, port)
			}
		}
		if !strings.HasPrefix(name, "gateway-") && len(service.Volumes) != 1 {
			t.Errorf("%s: volumes %q, want one", name, service.Volumes)
		}
		for _, volume := range service.Volumes {
			if source, _, _ := strings.Cut(volume, ":"); source != name || !hasKey(file.Volumes, source) {
				t.Errorf("%s: volume %s, want one of its own", name, volume)
			}
		}
	}
	if one, two := file.Services["gateway-1"].Environment, file.Services["gateway-2"].Environment; len(one) == 0 || !maps.Equal(one, two) {
		t.Errorf("the gateways have the variables %v and %v, want the same", one, two)
	}
	required := map[string]bool{}
	for _, m := range composeRequired.FindAllStringSubmatch(string(raw), -1) {
		required[m[1]] = true
	}
	for _, name := range []string{"EVENTHOOK_ADMIN_KEY", "EVENTHOOK_ENCRYPTION_KEYS", "POSTGRES_PASSWORD", "NATS_PASSWORD"} {
		if !required[name] {
			t.Errorf("%s has a default, or its error has no hint", name)
		}
	}
}

func hasKey[V any](m map[string]V, key string) bool {
	_, ok := m[key]
	return ok
}

// docker compose reads the files, with the variables and without them.
func TestDockerComposeReadsTheFiles(t *testing.T) {
	if err := exec.Command("docker", "compose", "version").Run(); err != nil {
		t.Skipf("no docker compose: %v", err)
	}
	for _, file := range []string{"compose.yaml", "deploy/compose.cluster.yaml"} {
		config := func(variables ...string) (string, error) {
			cmd := exec.Command("docker", "compose", "-f", file, "--env-file", "/dev/null", "config", "--quiet")
			cmd.Dir, cmd.Env = top, append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}, variables...)
			out, err := cmd.CombinedOutput()
			return string(out), err
		}
		if out, err := config("EVENTHOOK_ADMIN_KEY=a", "EVENTHOOK_ENCRYPTION_KEYS=b", "POSTGRES_PASSWORD=c", "GRAFANA_PASSWORD=d", "NATS_PASSWORD=e"); err != nil {
			t.Errorf("%s with the variables: %v\n%s", file, err, out)
		}
		if out, err := config(); err == nil || !strings.Contains(out, "openssl rand") {
			t.Errorf("%s without the variables: got %s, %v; want an error with a hint", file, out, err)
		}
	}
}
