package api

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/labstack/echo/v4"

	"github.com/eventhook/eventhook"
)

// TestEveryOperationHasABudget compares the table of docs/api-limits.md with the
// operations. A new operation needs a line there.
func TestEveryOperationHasABudget(t *testing.T) {
	api := Register(echo.New(), Deps{Keys: oneTenant{}, AdminKeys: []eventhook.Secret{eventhook.NewSecret("the admin's")}, Now: time.Now})
	page, err := os.ReadFile("../../docs/api-limits.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]bool{}
	_, table, _ := strings.Cut(string(page), "## Operations")
	for line := range strings.SplitSeq(table, "\n") {
		if strings.HasPrefix(line, "| `") {
			documented[line] = true
		}
	}
	for _, path := range slices.Sorted(maps.Keys(api.OpenAPI().Paths)) {
		item := api.OpenAPI().Paths[path]
		for _, op := range []*huma.Operation{item.Get, item.Put, item.Post, item.Patch, item.Delete} {
			if op == nil {
				continue
			}
			line := fmt.Sprintf("| `%s` | %s | %s |", op.OperationID, op.Metadata[classKey], bodyText(op))
			if !documented[line] {
				t.Errorf("docs/api-limits.md lacks the line\n%s", line)
			}
			delete(documented, line)
			for _, status := range []string{"429", "503"} {
				if op.Responses[status] == nil || op.Responses[status].Headers["Retry-After"] == nil {
					t.Errorf("%s: %s with Retry-After is not documented", op.OperationID, status)
				}
			}
			if c := op.Metadata[classKey].(class); c != changes && c != ownLimits && c != fixed && newClassSlots(Limits{}.withDefaults())[c] == nil {
				t.Errorf("%s: the class %s has no slots", op.OperationID, c)
			}
		}
	}
	for line := range documented {
		t.Errorf("docs/api-limits.md has an outdated line:\n%s", line)
	}
}

func bodyText(op *huma.Operation) string {
	if op.RequestBody == nil {
		return "–"
	}
	if op.Method == http.MethodGet {
		return "?"
	}
	return fmt.Sprintf("%d KiB", (op.MaxBodyBytes-1)>>10)
}
