package eventhook_test

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

const module = "github.com/eventhook/eventhook"

const (
	everything = "*"
	root       = "."
)

// allowedImports lists the packages of this module that each package may import
// (docs/architecture.md). A new package needs a line here. Tests may import any
// package.
var allowedImports = map[string][]string{
	root:                  nil,
	"cmd/eventhook":       {everything},
	"bench":               {everything}, // measures all packages and is not part of the product
	"bench/measure":       nil,
	"bench/plot":          nil,
	"bench/process":       nil,
	"bench/seed":          nil,
	"bench/soak":          {root, "bench/measure", "bench/plot", "bench/process", "bench/seed", "client", "ingest", "worker", "internal/pgembed", "internal/seal"},
	"deploy/sbom":         nil,
	"deploy/deploytest":   nil,
	"ingest":              {root, "consumers", "internal/backoff", "internal/effects", "internal/chunks", "internal/meter", "internal/roundrobin", "verify", "internal/batch", "internal/payload", "internal/snapshot", "internal/usage", "internal/clients", "internal/panics"},
	"verify":              {root, "internal/meter", "internal/pattern", "internal/payload"},
	"route":               {root, "internal/effects", "internal/cpushare", "internal/meter", "internal/pattern", "internal/filter", "internal/payload", "internal/script", "internal/snapshot", "internal/roundrobin", "internal/backoff", "internal/wake", "internal/panics"},
	"targets":             {root, "internal/effects", "internal/payload"},
	"consumers":           {root, "targets", "verify"},
	"ingest/consume":      {root, "consumers", "ingest", "internal/backoff", "internal/panics"},
	"outbound/brokers":    {root, "consumers", "outbound", "targets"},
	"outbound":            {root, "outbound/match", "outbound/schedule", "outbound/send", "internal/effects", "internal/cpushare", "internal/meter", "internal/batch", "internal/snapshot", "internal/roundrobin", "internal/backoff", "internal/lifetime", "internal/wake", "internal/panics"},
	"outbound/match":      {root, "internal/cpushare", "internal/meter", "internal/filter", "internal/payload", "internal/schema", "internal/snapshot", "internal/panics"},
	"outbound/schedule":   {root},
	"outbound/send":       {root, "internal/payload"},
	"outbound/auth":       {root, "outbound/send", "internal/snapshot"},
	"outbound/agents":     {root, "outbound", "outbound/match", "outbound/schedule", "outbound/send", "internal/backoff", "internal/batch", "internal/lifetime", "internal/roundrobin", "internal/wake", "internal/panics"},
	"outbound/temporal":   {root, "outbound", "outbound/brokers", "targets"},
	"outbound/transform":  {root, "outbound/send", "internal/cpushare", "internal/meter", "internal/roundrobin", "internal/script"},
	"outbound/replay":     {root, "outbound/match", "internal/cpushare", "internal/meter"},
	"migrations":          {root},
	"configs":             {root, "consumers", "ingest/consume", "internal/branding", "internal/openid", "internal/cpushare", "ingest", "route", "targets", "verify", "outbound"},
	"internal/pg":         {root, "internal/backoff", "internal/effects", "internal/payload", "internal/snapshot", "internal/roundrobin", "ingest", "ingest/consume", "route", "outbound", "outbound/agents", "outbound/replay", "internal/portallink", "internal/wake", "internal/session"},
	"internal/api":        {root, "consumers", "internal/effects", "ingest", "route", "targets", "verify", "internal/batch", "internal/payload", "internal/schema", "internal/snapshot", "internal/usage", "internal/clients", "internal/portallink", "internal/roundrobin", "internal/panics"},
	"internal/tracing":    {root, "internal/effects", "ingest", "outbound", "outbound/send"},
	"internal/session":    {root, "internal/clients", "internal/panics"},
	"internal/openid":     {root, "internal/clients", "internal/panics", "internal/session"},
	"internal/web":        {"client"},
	"internal/branding":   {root},
	"internal/portal":     {root, "client", "internal/api", "internal/branding", "internal/clients", "internal/portallink", "internal/roundrobin", "internal/session", "internal/web"},
	"internal/console":    {root, "client", "internal/api", "internal/session", "internal/web"},
	"internal/telemetry":  {root, "internal/effects", "internal/cpushare", "ingest", "outbound", "targets", "internal/panics"},
	"internal/effects":    {root},
	"internal/backoff":    nil,
	"internal/batch":      {"internal/wake", "internal/panics"},
	"internal/lifetime":   nil,
	"internal/panics":     nil,
	"internal/wake":       nil,
	"internal/clocktest":  nil,
	"internal/filter":     {root, "internal/meter", "internal/pattern", "internal/payload"},
	"internal/payload":    {root, "internal/meter", "internal/chunks"},
	"internal/schema":     {root, "internal/meter", "internal/pattern", "internal/panics"},
	"internal/snapshot":   {root, "internal/panics"},
	"internal/usage":      {root, "internal/effects", "outbound"},
	"internal/clients":    nil,
	"internal/roundrobin": nil,
	"internal/chunks":     nil,
	"internal/meter":      nil,
	"internal/cpushare":   {root, "internal/meter", "internal/roundrobin"},
	"internal/pattern":    {"internal/meter"},
	"internal/script":     {root, "internal/meter", "internal/proc", "internal/panics"},
	"internal/proc":       nil,
	"internal/egress":     nil,
	"internal/portallink": {root},
	"internal/keyset":     {root, "verify", "internal/panics"},
	"internal/certfile":   nil,
	"internal/mcp":        {"client"},
	"internal/dbclock":    nil,

	"internal/certfile/certfiletest": nil,
	"internal/egress/egresstest":     nil,
	"internal/docs":                  {"verify"},
	"internal/seal":                  nil,
	"internal/pgembed":               {"internal/proc"},
	"internal/pgtest":                {"migrations", "internal/pgembed"},

	"internal/natslog":  {root, "ingest", "internal/backoff", "internal/panics"},
	"internal/natstest": nil,

	"internal/servertest": nil,
	"internal/rabbittest": {"internal/certfile/certfiletest", "internal/servertest"},
	"internal/redistest":  {"internal/servertest"},

	"internal/browsertest":             nil,
	"internal/browsertest/gatewaytest": {root, "client", "ingest", "internal/browsertest", "internal/certfile/certfiletest", "internal/cli/send", "internal/pgtest", "internal/portallink", "internal/seal", "bench/seed"},

	"internal/tracing/collectortest": nil,

	"internal/session/sessiontest": {root, "internal/session"},

	"internal/usage/usagetest":   {root, "internal/usage"},
	"outbound/match/matchtest":   {root, "outbound/match"},
	"outbound/agents/agentstest": {root, "outbound", "outbound/agents"},
	"outbound/outboundtest":      {root, "outbound"},
	"outbound/publishtest":       {root, "outbound"},
	"outbound/replay/replaytest": {root, "outbound/replay", "internal/cpushare"},
	"route/routetest":            {root, "internal/effects", "route"},

	"internal/cli":                     {root, "client", "internal/cli/input", "internal/cli/listen", "internal/cli/terminal"},
	"internal/cli/listen":              {root, "client", "internal/cli/terminal"},
	"internal/cli/input":               nil,
	"internal/cli/terminal":            {root, "client", "internal/cli/input"},
	"internal/agent":                   {root, "client", "internal/backoff", "internal/batch", "internal/certfile", "internal/egress", "internal/lifetime", "internal/panics"},
	"internal/cli/agent":               {"internal/agent", "internal/cli/input"},
	"internal/cli/send":                {root, "ingest", "verify", "internal/cli/input", "internal/cli/terminal"},
	"internal/cli/receive":             {"verify", "internal/cli/input", "internal/cli/terminal"},
	"internal/cli/verify":              {root, "ingest", "verify", "internal/cli/input", "internal/cli/terminal"},
	"internal/cli/demo":                {"ingest", "verify", "internal/pgembed", "internal/cli/send"},
	"internal/cli/providers":           {"internal/api", "internal/docs", "internal/cli/input"},
	"internal/cli/plan":                {root, "internal/cli/terminal"},
	"internal/cli/clitest":             nil,
	"internal/datadir":                 nil,
	"internal/httpguard":               {"internal/panics"},
	"internal/httpguard/httpguardtest": nil,

	"client":                nil, // for other programs
	"worker":                {"client", "internal/backoff"},
	"internal/docs/openapi": {"internal/api"},
	"internal/docs/metrics": {"internal/telemetry"},
}

// libraryUsers lists the packages that may import a library.
var libraryUsers = map[string][]string{
	"github.com/labstack/echo/": {"ingest", "internal/api", "cmd/eventhook", "bench"},
	// The SDK of OpenTelemetry and its exporters have one user; a worker continues traces with the API.
	"go.opentelemetry.io/":               {"internal/tracing", "internal/tracing/collectortest", "worker"},
	"go.opentelemetry.io/otel/sdk":       {"internal/tracing"},
	"go.opentelemetry.io/otel/exporters": {"internal/tracing"},
	"github.com/modelcontextprotocol/":   {"internal/mcp"},
	"github.com/coreos/go-oidc/":         {"internal/openid"},
	"github.com/chromedp/":               {"internal/browsertest"},
	"github.com/rabbitmq/":               {"outbound/brokers"},
	"github.com/gomodule/":               {"outbound/brokers"},
	"github.com/nats-io/":                {"internal/natslog", "internal/natstest", "outbound/brokers"},
	"github.com/twmb/":                   {"outbound/brokers"},
	"go.temporal.io/":                    {"outbound/temporal"},
	// pgembed and pgtest run servers and hold no SQL of the product.
	"github.com/jackc/pgx/": {"internal/pg", "migrations", "internal/pgembed", "internal/pgtest", "internal/browsertest/gatewaytest", "bench", "bench/seed", "bench/soak"},
}

// testPackages lists the packages that only tests and the bench may import. A test package may import those that its
// line in allowedImports lists.
var testPackages = []string{"deploy/deploytest", "bench/measure", "bench/plot", "bench/process", "bench/seed", "bench/soak", "internal/browsertest", "internal/browsertest/gatewaytest", "internal/clocktest", "internal/natstest", "internal/pgtest", "internal/servertest", "internal/rabbittest", "internal/redistest", "internal/usage/usagetest", "internal/session/sessiontest", "outbound/match/matchtest", "outbound/agents/agentstest", "outbound/outboundtest", "outbound/publishtest", "outbound/replay/replaytest", "route/routetest", "internal/cli/clitest", "internal/httpguard/httpguardtest", "internal/tracing/collectortest", "internal/certfile/certfiletest", "internal/egress/egresstest"}

func TestPackagesImportOnlyAllowedPackages(t *testing.T) {
	if found := violations(t, os.DirFS(".")); len(found) > 0 {
		t.Errorf("forbidden imports, got:\n%s\nwant none (see allowedImports)", strings.Join(found, "\n"))
	}
}

func TestImportViolationsAreReported(t *testing.T) {
	file := func(imports ...string) *fstest.MapFile {
		text := "package x\n"
		for _, i := range imports {
			text += "import " + strconv.Quote(i) + "\n"
		}
		return &fstest.MapFile{Data: []byte(text)}
	}
	for _, c := range []struct {
		claim string
		tree  fstest.MapFS
		want  []string
	}{
		{"a tree without Go files", fstest.MapFS{}, []string{"no Go files were found"}},
		{"a package without a line", fstest.MapFS{"shop/x.go": file()}, []string{"shop: has no line in allowedImports"}},
		{"a package that is not allowed", fstest.MapFS{"route/x.go": file(module, module+"/targets")}, []string{"route: imports targets"}},
		{"the root imports the standard library only", fstest.MapFS{"x.go": file("net/http", "golang.org/x/text")}, []string{".: imports golang.org/x/text"}},
		{"the root imports no package of the module", fstest.MapFS{"x.go": file(module + "/verify")}, []string{".: imports verify"}},
		{"echo outside of the HTTP handlers", fstest.MapFS{"verify/x.go": file("github.com/labstack/echo/v4")}, []string{"verify: imports github.com/labstack/echo/v4"}},
		{"pgx outside of the store", fstest.MapFS{"route/x.go": file("github.com/jackc/pgx/v5/pgxpool")}, []string{"route: imports github.com/jackc/pgx/v5/pgxpool"}},
		{"pgtest in the product", fstest.MapFS{"cmd/eventhook/x.go": file(module + "/internal/pgtest")}, []string{"cmd/eventhook: imports internal/pgtest"}},
		{"usagetest in the product", fstest.MapFS{"cmd/eventhook/x.go": file(module + "/internal/usage/usagetest")}, []string{"cmd/eventhook: imports internal/usage/usagetest"}},
		{"a test package that imports another without a line", fstest.MapFS{"internal/clocktest/x.go": file(module + "/internal/pgtest")},
			[]string{"internal/clocktest: imports internal/pgtest"}},
		{"a test package that imports another", fstest.MapFS{"internal/browsertest/gatewaytest/x.go": file(module + "/internal/pgtest")}, nil},
		{"tests may import any package", fstest.MapFS{"x.go": file(), "route/x_test.go": file(module+"/targets", module+"/internal/pgtest")}, nil},
		{"cmd may import any package", fstest.MapFS{"cmd/eventhook/x.go": file(module+"/internal/pg", module+"/route")}, nil},
		{"testdata and hidden folders are skipped", fstest.MapFS{"x.go": file(), "testdata/x.go": file(), ".git/x.go": file()}, nil},
	} {
		t.Run(c.claim, func(t *testing.T) {
			if diff := cmp.Diff(c.want, violations(t, c.tree)); diff != "" {
				t.Errorf("violations (-want +got):\n%s", diff)
			}
		})
	}
}

// violations lists the imports that the tables do not allow.
func violations(t *testing.T, tree fs.FS) []string {
	t.Helper()
	var all []string
	files := 0
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		switch base := path.Base(name); {
		case err != nil:
			return err
		case d.IsDir() && name != "." && (base == "testdata" || base == "node_modules" || base[0] == '.' || base[0] == '_'):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(base, ".go"):
			return nil
		}
		files++
		if strings.HasSuffix(name, "_test.go") {
			return nil
		}
		found, err := violationsOf(tree, name)
		all = append(all, found...)
		return err
	})
	if err != nil {
		t.Fatalf("read the tree: %v", err)
	}
	if files == 0 {
		return []string{"no Go files were found"}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// violationsOf lists the violations of one file.
func violationsOf(tree fs.FS, name string) ([]string, error) {
	importer := path.Dir(name)
	allowed, known := allowedImports[importer]
	if !known {
		return []string{importer + ": has no line in allowedImports"}, nil
	}
	text, err := fs.ReadFile(tree, name)
	if err != nil {
		return nil, err
	}
	f, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ImportsOnly)
	if err != nil {
		return nil, err
	}
	var found []string
	for _, spec := range f.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		inModule, isOwn := strings.CutPrefix(imported+"/", module+"/")
		if isOwn {
			imported = path.Clean(inModule)
		}
		if !mayImport(importer, allowed, imported, isOwn) {
			found = append(found, importer+": imports "+imported)
		}
	}
	return found, nil
}

func mayImport(importer string, allowed []string, imported string, isOwn bool) bool {
	switch {
	case isOwn && slices.Contains(testPackages, imported):
		return importer == "bench" || slices.Contains(testPackages, importer) && slices.Contains(allowed, imported)
	case isOwn:
		return slices.Contains(allowed, everything) || slices.Contains(allowed, imported)
	case importer == root:
		first, _, _ := strings.Cut(imported, "/")
		return !strings.Contains(first, ".")
	}
	for library, users := range libraryUsers {
		if strings.HasPrefix(imported, library) && !slices.Contains(users, importer) {
			return false
		}
	}
	return true
}
