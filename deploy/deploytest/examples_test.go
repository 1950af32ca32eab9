package deploytest

import (
	"regexp"
	"strings"
	"testing"
)

var (
	alertNames   = regexp.MustCompile(`alertname=~"([^"]*)"`)
	alternatives = regexp.MustCompile(`^(\w*)\(([\w|]+)\)$`)
)

// namesOf lists the names that a pattern such as A(B|C) or A|B matches.
func namesOf(pattern string) (names []string) {
	prefix := ""
	if m := alternatives.FindStringSubmatch(pattern); m != nil {
		prefix, pattern = m[1], m[2]
	}
	for name := range strings.SplitSeq(pattern, "|") {
		names = append(names, prefix+name)
	}
	return names
}

func TestTheExampleOfAlertmanagerNamesExistingAlerts(t *testing.T) {
	t.Parallel()
	exists := map[string]bool{}
	for _, r := range readAlerts(t) {
		exists[r.Alert] = true
	}
	var config struct {
		Rules []struct {
			Source []string `yaml:"source_matchers"`
			Target []string `yaml:"target_matchers"`
		} `yaml:"inhibit_rules"`
	}
	readYAML(t, prometheusDir+"/alertmanager.yml", &config)
	found := 0
	for _, r := range config.Rules {
		for _, m := range alertNames.FindAllStringSubmatch(strings.Join(append(r.Source, r.Target...), " "), -1) {
			for _, name := range namesOf(m[1]) {
				if found++; !exists[name] {
					t.Errorf("alertmanager.yml names %s, which does not exist", name)
				}
			}
		}
	}
	if found == 0 {
		t.Error("alertmanager.yml names no alert")
	}
}

func TestComposeMountsTheRulesAndTheDashboards(t *testing.T) {
	t.Parallel()
	var compose struct {
		Services map[string]struct {
			Command []string
			Volumes []string
		}
	}
	readYAML(t, "../../compose.yaml", &compose)
	var provider struct {
		Providers []struct{ Options struct{ Path string } }
	}
	readYAML(t, "../grafana/provisioning/dashboards/eventhook.yaml", &provider)
	if len(provider.Providers) != 1 {
		t.Fatalf("got the providers %+v, want one", provider.Providers)
	}
	want := func(service, mount string) {
		for _, v := range compose.Services[service].Volumes {
			if v == mount+":ro" {
				return
			}
		}
		t.Errorf("compose.yaml mounts %q into %s, want %s", compose.Services[service].Volumes, service, mount)
	}
	want("prometheus", "./deploy/prometheus/prometheus.yml:/etc/prometheus/prometheus.yml")
	want("prometheus", "./deploy/prometheus/rules.yaml:/etc/prometheus/rules.yaml")
	want("grafana", "./deploy/grafana/provisioning:/etc/grafana/provisioning")
	want("grafana", "./deploy/grafana/dashboards:"+provider.Providers[0].Options.Path)
	// Without classic buckets, rules and dashboards have no data.
	if strings.Contains(strings.Join(compose.Services["prometheus"].Command, " "), "native-histograms") &&
		!strings.Contains(readText(t, prometheusDir+"/prometheus.yml"), "always_scrape_classic_histograms: true") {
		t.Error("Prometheus of compose.yaml stores native histograms only, want classic buckets")
	}
}
