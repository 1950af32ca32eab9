package deploytest

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/eventhook/eventhook/internal/cli/clitest"
)

// prometheus is a running Prometheus.
type prometheus struct {
	t   *testing.T
	url string
}

var groupInterval = regexp.MustCompile(`(?m)^    interval: .*$`)

// startPrometheus starts Prometheus, which scrapes the gateway and evaluates the rules each
// second.
func startPrometheus(t *testing.T, g gateway, flags ...string) prometheus {
	t.Helper()
	binary := program(t, "prometheus")
	rules := clitest.WriteFile(t, "rules.yaml", groupInterval.ReplaceAllString(readText(t, rulesFile), "    interval: 1s"))
	config := clitest.WriteFile(t, "prometheus.yml", fmt.Sprintf(`
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [%q]
scrape_configs: [{job_name: eventhook, static_configs: [{targets: [%q]}]}]
`, rules, g.management))
	address := clitest.FreeAddress(t)
	startProcess(t, exec.Command(binary, append(flags, "--config.file="+config, "--web.listen-address="+address,
		"--log.level=warn",
		"--storage.tsdb.path="+filepath.Join(t.TempDir(), "data"))...))
	p := prometheus{t: t, url: "http://" + address}
	clitest.Eventually(t, "Prometheus is ready", func() bool {
		resp, err := client.Get(p.url + "/-/ready")
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
	return p
}

// get reads the data of an answer of the API of Prometheus.
func (p prometheus) get(path string, data any) error {
	r, err := http.NewRequest(http.MethodGet, p.url+path, http.NoBody)
	if err != nil {
		return err
	}
	body, err := request(p.t.Context(), r, http.StatusOK)
	if err != nil {
		return err
	}
	return json.Unmarshal(body, &struct{ Data any }{data})
}

// sample is a series of the result of a query.
type sample struct {
	Metric    map[string]string
	Value     []any           // time and value
	Histogram json.RawMessage // of a native histogram
}

func (s sample) isNumber() bool {
	if len(s.Value) != 2 {
		return false
	}
	text, _ := s.Value[1].(string)
	value, err := strconv.ParseFloat(text, 64)
	return err == nil && !math.IsNaN(value)
}

// query returns the series of an expression whose values are numbers.
func (p prometheus) query(expr string) ([]sample, error) {
	var data struct{ Result []sample }
	err := p.get("/api/v1/query?query="+url.QueryEscape(expr), &data)
	return slices.DeleteFunc(data.Result, func(s sample) bool { return !s.isNumber() }), err
}

// hasData reports whether an expression returns a number. It fails the test if Prometheus
// refuses the expression.
func (p prometheus) hasData(expr string) bool {
	p.t.Helper()
	result, err := p.query(expr)
	if err != nil {
		p.t.Fatalf("%s: %v", expr, err)
	}
	return len(result) > 0
}

// wantData waits until each of the expressions, which are keyed by their place, returns data.
func (p prometheus) wantData(exprs map[string]string) {
	p.t.Helper()
	const patience = 90 * time.Second
	poll := time.NewTicker(500 * time.Millisecond)
	defer poll.Stop()
	for end := time.Now().Add(patience); time.Now().Before(end); <-poll.C {
		for place, expr := range exprs {
			if p.hasData(expr) {
				delete(exprs, place)
			}
		}
		if len(exprs) == 0 {
			return
		}
	}
	for place, expr := range exprs {
		p.t.Errorf("%s returns no data: %s", place, expr)
	}
}

var labelValues = regexp.MustCompile(`^label_values\((.*), (\w+)\)$`)

// expressions returns the queries of the dashboards as Grafana sends them.
func expressions(t *testing.T) map[string]string {
	all := map[string]string{}
	values := strings.NewReplacer("$__rate_interval", "10s", "$job", "eventhook", "$instance", ".*", "$tenant", "acme|other")
	for _, d := range readDashboards(t) {
		for title, exprs := range d.queries() {
			for i, expr := range exprs {
				expr = labelValues.ReplaceAllString(expr, "count by ($2) ($1)")
				all[fmt.Sprintf("%s, %s, query %d", d.file, title, i+1)] = values.Replace(expr)
			}
		}
	}
	return all
}

var promqlBlock = regexp.MustCompile("(?ms)^```promql\n(.*?)\n```$")

// runbookQueries returns the expressions of the runbook, one for each line.
func runbookQueries(t *testing.T) (all []string) {
	for _, block := range promqlBlock.FindAllStringSubmatch(readText(t, runbookFile), -1) {
		all = append(all, strings.Split(block[1], "\n")...)
	}
	if len(all) == 0 {
		t.Errorf("%s has no expressions", runbookFile)
	}
	return all
}

// TestRulesAndDashboardsOnAGateway runs a gateway under load with one dead receiver, and
// Prometheus, which scrapes it. Each query of each dashboard and each recording rule returns
// data, Prometheus accepts the expressions of the runbook, no alert pages, and a test alert fires.
func TestRulesAndDashboardsOnAGateway(t *testing.T) {
	program(t, "prometheus")
	g := startGateway(t)
	p := startPrometheus(t, g)
	native := startPrometheus(t, g, "--enable-feature=native-histograms")
	g.startLoad(t)

	exprs := expressions(t)
	for name := range recordNames(t) {
		exprs["the recording rule "+name] = name
	}
	exprs["a dead receiver"] = `eventhook_breakers_open > 0`
	p.wantData(exprs)
	p.wantHealthyRules()
	for _, expr := range runbookQueries(t) {
		p.hasData(expr)
	}

	native.wantData(map[string]string{"a native histogram": `histogram_quantile(0.99, sum(rate(eventhook_received_to_settled_seconds[10s])))`})
	r, err := http.NewRequest(http.MethodPost, "http://"+g.management+"/test-alert", http.NoBody)
	if err == nil {
		_, err = request(t.Context(), r, http.StatusOK)
	}
	if err != nil {
		t.Fatal(err)
	}
	p.wantData(map[string]string{"the test alert": `ALERTS{alertname="EventhookTestAlert", alertstate="firing"}`})
	if p.hasData(`ALERTS{severity="page"}`) {
		pages, _ := p.query(`ALERTS{severity="page"}`)
		t.Errorf("one dead receiver causes the pages %v", pages)
	}
}

// wantHealthyRules fails the test if Prometheus could not evaluate a rule.
func (p prometheus) wantHealthyRules() {
	p.t.Helper()
	var data struct {
		Groups []struct {
			Rules []struct{ Name, Health, LastError string }
		}
	}
	if err := p.get("/api/v1/rules", &data); err != nil {
		p.t.Fatal(err)
	}
	number := 0
	for _, g := range data.Groups {
		for _, r := range g.Rules {
			number++
			if r.Health != "ok" {
				p.t.Errorf("the rule %s is %s: %s", r.Name, r.Health, r.LastError)
			}
		}
	}
	if want := len(readRules(p.t)); number != want {
		p.t.Errorf("Prometheus has %d rules, want %d", number, want)
	}
}
