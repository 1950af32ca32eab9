package main

import (
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"go.yaml.in/yaml/v4"

	"github.com/eventhook/eventhook/internal/cli/clitest"
	"github.com/eventhook/eventhook/internal/natstest"
	"github.com/eventhook/eventhook/internal/pgtest"
)

// composeCluster is deploy/compose.cluster.yaml with the variables of a test.
type composeCluster struct {
	t        *testing.T
	Services map[string]struct {
		Image       string
		Command     []string
		Environment map[string]string
	}
	Configs map[string]struct{ Content string }
}

// composeVariable matches a variable with its default or its error.
var composeVariable = regexp.MustCompile(`\$\{(\w+)(?::[-?]([^}]*))?\}`)

func readComposeCluster(t *testing.T, variables map[string]string) *composeCluster {
	t.Helper()
	raw, err := os.ReadFile("../../deploy/compose.cluster.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text := composeVariable.ReplaceAllStringFunc(string(raw), func(found string) string {
		m := composeVariable.FindStringSubmatch(found)
		if value, ok := variables[m[1]]; ok {
			return value
		}
		return m[2]
	})
	c := &composeCluster{t: t}
	if err := yaml.Unmarshal([]byte(text), c); err != nil {
		t.Fatal(err)
	}
	return c
}

// services returns the names of the services with a prefix, in order.
func (c *composeCluster) services(prefix string) (names []string) {
	for name := range c.Services {
		if strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// startNATS starts the servers of the file with their configuration.
func (c *composeCluster) startNATS() *natstest.Cluster {
	c.t.Helper()
	file := clitest.WriteFile(c.t, "eventhook.conf", c.Configs["nats"].Content)
	var list []server.Options
	for _, name := range c.services("nats-") {
		o, err := server.ProcessConfigFile(file)
		if err != nil {
			c.t.Fatal(err)
		}
		if !o.JetStream || !o.SyncAlways {
			c.t.Errorf("%s: JetStream %t, sync_interval always %t; want both", name, o.JetStream, o.SyncAlways)
		}
		command := c.Services[name].Command
		if at := slices.Index(command, "--name"); at < 0 || command[at+1] != name {
			c.t.Fatalf("the command of %s is %q, want its name", name, command)
		}
		if image := c.Services[name].Image; image != "nats:"+server.VERSION+"-alpine" {
			c.t.Errorf("%s has the image %s, want the version of this test, %s", name, image, server.VERSION)
		}
		o.ServerName = name
		list = append(list, *o)
	}
	return natstest.NewClusterOf(c.t, list)
}

// environment returns the variables of a gateway of the file, with the addresses of the test.
func (c *composeCluster) environment(name, dsn string, nats *natstest.Cluster) (env []string) {
	c.t.Helper()
	for variable, value := range c.Services[name].Environment {
		switch variable {
		case "DATABASE_URL":
			value = dsn
		case "EVENTHOOK_PUBLIC_URL":
			continue // each gateway prints its own
		}
		for i, host := range c.services("nats-") {
			value = strings.ReplaceAll(value, "@"+host+":4222", "@"+nats.Servers[i].Address())
		}
		env = append(env, variable+"="+value)
	}
	return append(env, "EVENTHOOK_LEASE_SECONDS=2")
}

// The topology of deploy/compose.cluster.yaml, with its settings: while webhooks arrive at both gateways,
// a server of NATS stops and a gateway is killed. Every webhook that was answered 200 is stored once.
func TestTheClusterOfTheComposeFileLosesNothing(t *testing.T) {
	t.Parallel()
	file := readComposeCluster(t, map[string]string{"EVENTHOOK_ADMIN_KEY": testAdminKey, "EVENTHOOK_ENCRYPTION_KEYS": testEncryptionKey,
		"POSTGRES_PASSWORD": "a", "NATS_PASSWORD": "0123456789abcdef"})
	names := file.services("gateway-")
	if len(names) != 2 || len(file.services("nats-")) != 3 || len(file.services("database")) != 1 {
		t.Fatalf("the services are %v, want two gateways, three servers of NATS and a database", file.services(""))
	}
	dsn, nats := pgtest.New(t), file.startNATS()
	tenants := clitest.WriteFile(t, "tenants.yaml", testTenants)
	var gateways []*instance
	var loads []*flood
	for _, name := range names {
		g := startCommand(t, file.environment(name, dsn, nats), "serve", "--apply", tenants)
		g.wantReady("200", "")
		gateways, loads = append(gateways, g), append(loads, startFloodNamed(t, g, name))
	}
	grows := func(what string, loads ...*flood) {
		t.Helper()
		for _, load := range loads {
			before := load.count(http.StatusOK)
			clitest.Eventually(t, what, func() bool { return load.count(http.StatusOK) >= before+enough })
		}
	}
	grows("both gateways accept webhooks", loads...)
	nats.Leader("EVENTHOOK_INGEST").Stop()
	grows("both gateways accept webhooks without a server of NATS", loads...)
	gateways[0].kill()
	grows("the other gateway accepts webhooks", loads[1])
	var accepted []string
	for _, load := range loads {
		load.stop()
		accepted = append(accepted, load.accepted...)
	}
	if n := gateways[1].metric(`ingest_log_append_seconds_count{outcome="appended"}`); n == 0 {
		t.Error("no webhook was accepted into the log")
	}
	wantStored(t, dsn, accepted)
	wantEachProcessedOnce(t, dsn, accepted)
	conn := connect(t, dsn)
	if n := count(t, conn, `SELECT count(*) FROM eventhook.event WHERE id = ANY($1::uuid[]) AND status = 'duplicate'`, accepted); n != 0 {
		t.Errorf("%d webhooks were stored as duplicates, want 0", n)
	}
}
