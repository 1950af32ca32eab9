package api_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eventhook/eventhook"
)

// TestExampleRequestsPassTheChecks sends the examples of all requests, with the ids of
// resources that exist. 409 is allowed, because the state of a resource may not allow the operation.
func TestExampleRequestsPassTheChecks(t *testing.T) {
	for _, op := range setUp(t).operations() {
		if op.RequestBody == nil {
			continue
		}
		t.Run(op.OperationID, func(t *testing.T) {
			r := setUp(t)
			close(r.stopping) // long polls answer at once
			a := &author{doc: r.openAPI, ids: r.existingIDs()}
			a.ids["work"] = r.execution(eventhook.Workflow, "process-payment")
			path := op.Path
			for _, p := range op.Parameters {
				if p.In == "path" {
					path = strings.ReplaceAll(path, "{"+p.Name+"}", a.pathValue(op.Path, p.Name))
				}
			}
			existing := a.existing(r.operations())
			for contentType, media := range op.RequestBody.Content {
				values := []any{media.Example}
				for _, x := range media.Examples {
					values = append(values, x.Value)
				}
				for _, value := range values {
					raw, isJSON := value.(json.RawMessage)
					if !isJSON {
						continue
					}
					request := httptest.NewRequest(op.Method, path, strings.NewReader(existing.Replace(string(raw))))
					request.Header.Set("Authorization", "Bearer "+adminKey)
					request.Header.Set("Content-Type", contentType)
					got := r.do(request)
					if got.Code >= 500 || slices.Contains([]int{http.StatusBadRequest, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity}, got.Code) {
						t.Errorf("%s: answered %d %s", raw, got.Code, got.Body)
					}
				}
			}
		})
	}
}

// existing replaces the ids and the source of examples by those of resources that exist.
func (a *author) existing(operations []*huma.Operation) *strings.Replacer {
	pairs := []string{`"source": "github"`, `"source": "crm"`}
	for _, op := range operations {
		for _, p := range op.Parameters {
			if id, isText := p.Example.(string); isText && p.Name == "id" {
				pairs = append(pairs, id, a.pathValue(op.Path, p.Name))
			}
		}
	}
	return strings.NewReplacer(pairs...)
}
