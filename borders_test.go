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

// borders says who may know whom (DESIGN, section 6). A new package adds its
// line here. Tests may know anybody.
var borders = map[string][]string{
	root:                  nil,
	"cmd/eventhook":       {everything},
	"bench":               {everything}, // measures it all, ships with nothing
	"bench/measure":       nil,
	"bench/seed":          nil,
	"ingest":              {root, "internal/effects", "internal/chunks", "internal/meter", "internal/roundrobin", "verify", "internal/batch", "internal/payload", "internal/snapshot", "internal/usage", "internal/clients"},
	"verify":              {root, "internal/meter", "internal/pattern", "internal/payload"},
	"route":               {root, "internal/effects", "internal/cpushare", "internal/meter", "internal/pattern", "internal/filter", "internal/payload", "internal/script", "internal/snapshot", "internal/roundrobin", "internal/backoff", "internal/wake"},
	"targets":             {root, "internal/effects", "internal/payload"},
	"outbound":            {root, "outbound/match", "outbound/schedule", "outbound/send", "internal/effects", "internal/cpushare", "internal/meter", "internal/batch", "internal/snapshot", "internal/roundrobin", "internal/backoff", "internal/lifetime", "internal/wake"},
	"outbound/match":      {root, "internal/cpushare", "internal/meter", "internal/filter", "internal/schema", "internal/snapshot"},
	"outbound/schedule":   {root},
	"outbound/send":       {root, "internal/payload"},
	"migrations":          nil,
	"configs":             {root, "internal/cpushare", "ingest", "route", "targets", "verify", "outbound"},
	"internal/pg":         {root, "internal/effects", "internal/payload", "internal/roundrobin", "ingest", "route", "outbound", "internal/wake"},
	"internal/api":        {root, "internal/effects", "outbound", "internal/meter", "ingest", "route", "targets", "verify", "internal/payload", "internal/schema", "internal/snapshot", "internal/usage", "internal/clients", "internal/roundrobin"},
	"internal/telemetry":  {root, "internal/effects", "internal/cpushare", "outbound"},
	"internal/effects":    {root},
	"internal/backoff":    nil,
	"internal/batch":      {"internal/wake"},
	"internal/lifetime":   nil,
	"internal/wake":       nil,
	"internal/filter":     {root, "internal/meter", "internal/pattern", "internal/payload"},
	"internal/payload":    {root, "internal/meter", "internal/chunks"},
	"internal/schema":     {root, "internal/meter", "internal/pattern"},
	"internal/snapshot":   {root},
	"internal/usage":      {root, "internal/effects", "outbound"},
	"internal/clients":    nil,
	"internal/roundrobin": nil,
	"internal/chunks":     nil,
	"internal/meter":      nil,
	"internal/cpushare":   {root, "internal/meter", "internal/roundrobin"},
	"internal/pattern":    {"internal/meter"},
	"internal/script":     {root, "internal/proc"},
	"internal/proc":       nil,
	"internal/egress":     nil,
	"internal/keyset":     {root, "verify"},
	"internal/docs":       {"verify"},
	"internal/seal":       nil,
	"internal/pgembed":    {"internal/proc"},
	"internal/pgtest":     {"migrations", "internal/pgembed"},

	"internal/usage/usagetest": {root, "internal/usage"},
	"outbound/outboundtest":    {root, "outbound"},
	"outbound/publishtest":     {root, "outbound"},
	"route/routetest":          {root, "internal/effects", "route"},

	"internal/cli":                     {root, "client", "internal/cli/input", "internal/cli/terminal"},
	"internal/cli/input":               nil,
	"internal/cli/terminal":            {root, "client", "internal/cli/input"},
	"internal/cli/send":                {root, "ingest", "internal/cli/input", "internal/cli/terminal"},
	"internal/cli/receive":             {"verify", "internal/cli/input", "internal/cli/terminal"},
	"internal/cli/verify":              {root, "ingest", "verify", "internal/cli/input", "internal/cli/terminal"},
	"internal/cli/demo":                {"ingest", "verify", "internal/pgembed", "internal/cli/send"},
	"internal/cli/providers":           {"internal/api", "internal/docs", "internal/cli/input"},
	"internal/cli/plan":                {root, "internal/cli/terminal"},
	"internal/cli/clitest":             nil,
	"internal/datadir":                 nil,
	"internal/httpguard":               nil,
	"internal/httpguard/httpguardtest": nil,

	"client":                nil, // for other programs: it knows nothing of ours
	"worker":                {"client"},
	"internal/docs/openapi": {"internal/api"},
}

// keepers are the packages that may know a technique of others.
var keepers = map[string][]string{
	"github.com/labstack/echo/": {"ingest", "internal/api", "cmd/eventhook", "bench"},
	// pgembed and pgtest run servers and hold no SQL of the product.
	"github.com/jackc/pgx/": {"internal/pg", "migrations", "internal/pgembed", "internal/pgtest", "bench", "bench/seed"},
}

// forTests may be imported by tests alone, and by the bench.
var forTests = []string{"bench/measure", "bench/seed", "internal/pgtest", "internal/usage/usagetest", "outbound/outboundtest", "outbound/publishtest", "route/routetest", "internal/cli/clitest", "internal/httpguard/httpguardtest"}

func TestPackagesImportOnlyAllowedPackages(t *testing.T) {
	if crossed := crossings(t, os.DirFS(".")); len(crossed) > 0 {
		t.Errorf("borders crossed, got:\n%s\nwant none (DESIGN, section 6)", strings.Join(crossed, "\n"))
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
		{"an empty tree is a fault", fstest.MapFS{}, []string{"no Go files were found"}},
		{"a new package needs a line", fstest.MapFS{"shop/x.go": file()}, []string{"shop: has no line in borders"}},
		{"rooms do not know each other", fstest.MapFS{"route/x.go": file(module, module+"/targets")}, []string{"route: imports targets"}},
		{"the root knows the standard library only", fstest.MapFS{"x.go": file("net/http", "golang.org/x/text")}, []string{".: imports golang.org/x/text"}},
		{"the root knows no room", fstest.MapFS{"x.go": file(module + "/verify")}, []string{".: imports verify"}},
		{"echo stays at the door", fstest.MapFS{"verify/x.go": file("github.com/labstack/echo/v4")}, []string{"verify: imports github.com/labstack/echo/v4"}},
		{"pgx stays in the store", fstest.MapFS{"route/x.go": file("github.com/jackc/pgx/v5/pgxpool")}, []string{"route: imports github.com/jackc/pgx/v5/pgxpool"}},
		{"nothing that ships needs pgtest", fstest.MapFS{"cmd/eventhook/x.go": file(module + "/internal/pgtest")}, []string{"cmd/eventhook: imports internal/pgtest"}},
		{"nor usagetest", fstest.MapFS{"cmd/eventhook/x.go": file(module + "/internal/usage/usagetest")}, []string{"cmd/eventhook: imports internal/usage/usagetest"}},
		{"tests know anybody", fstest.MapFS{"x.go": file(), "route/x_test.go": file(module+"/targets", module+"/internal/pgtest")}, nil},
		{"cmd knows everybody", fstest.MapFS{"cmd/eventhook/x.go": file(module+"/internal/pg", module+"/route")}, nil},
		{"testdata and hidden folders are no packages", fstest.MapFS{"x.go": file(), "testdata/x.go": file(), ".git/x.go": file()}, nil},
	} {
		t.Run(c.claim, func(t *testing.T) {
			if diff := cmp.Diff(c.want, crossings(t, c.tree)); diff != "" {
				t.Errorf("crossings (-want +got):\n%s", diff)
			}
		})
	}
}

// crossings lists the imports that the tables forbid.
func crossings(t *testing.T, tree fs.FS) []string {
	t.Helper()
	var crossed []string
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
		found, err := crossingsOf(tree, name)
		crossed = append(crossed, found...)
		return err
	})
	if err != nil {
		t.Fatalf("read the tree: %v", err)
	}
	if files == 0 {
		return []string{"no Go files were found"}
	}
	slices.Sort(crossed)
	return slices.Compact(crossed)
}

func crossingsOf(tree fs.FS, name string) ([]string, error) {
	room := path.Dir(name)
	allowed, known := borders[room]
	if !known {
		return []string{room + ": has no line in borders"}, nil
	}
	text, err := fs.ReadFile(tree, name)
	if err != nil {
		return nil, err
	}
	f, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ImportsOnly)
	if err != nil {
		return nil, err
	}
	var crossed []string
	for _, spec := range f.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		ours, isOurs := strings.CutPrefix(imported+"/", module+"/")
		if isOurs {
			imported = path.Clean(ours)
		}
		if !mayImport(room, allowed, imported, isOurs) {
			crossed = append(crossed, room+": imports "+imported)
		}
	}
	return crossed, nil
}

func mayImport(room string, allowed []string, imported string, ours bool) bool {
	switch {
	case ours && slices.Contains(forTests, imported):
		return room == "bench"
	case ours:
		return slices.Contains(allowed, everything) || slices.Contains(allowed, imported)
	case room == root:
		first, _, _ := strings.Cut(imported, "/")
		return !strings.Contains(first, ".")
	}
	for technique, rooms := range keepers {
		if strings.HasPrefix(imported, technique) && !slices.Contains(rooms, room) {
			return false
		}
	}
	return true
}
