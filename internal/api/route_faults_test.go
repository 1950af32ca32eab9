package api_test

import (
	"net/http"
	"strings"
	"testing"
)

// Compile errors of a route have line and column, with the same text on creation and in
// a backtest.
func TestCompileErrorsHaveLineAndColumn(t *testing.T) {
	r := setUp(t)
	task := []any{object{"type": "task", "task_kind": "k"}}
	for _, c := range []struct {
		claim         string
		route         object
		at, beginning string
	}{
		{"CEL", object{"filter_expression": "body.a >\n  bdy.b"}, "filter_expression", "line 2, column 3: undeclared reference to 'bdy'"},
		{"a JavaScript filter", object{"filter_function": "function filter(e) {\n  return e.body..x\n}"}, "filter_function", "line 2, column 17: SyntaxError"},
		{"a JavaScript transform", object{"transform": object{"type": "javascript", "expression": "function transform(e {\n}"}}, "transform.expression", "line 1, column 22: SyntaxError"},
		{"JMESPath", object{"transform": object{"type": "jmespath", "expression": "{id: id,\n  x: ]}"}}, "transform.expression", "line 2, column 6: the expression is not valid at this position"},
	} {
		t.Run(c.claim, func(t *testing.T) {
			r := r.subtest(t)
			c.route["name"], c.route["targets"] = "r", task
			made := r.admin("POST", T("acme")+"/sources/crm/routes", c.route).want(http.StatusUnprocessableEntity).problem()
			tried := r.backtest(object{"source": "crm", "route": c.route}).want(http.StatusUnprocessableEntity).problem()
			if len(made.Errors) != 1 || made.Errors[0].Location != "body."+c.at || !strings.HasPrefix(made.Errors[0].Message, c.beginning) {
				t.Errorf("on creation: got %+v, want %q at body.%s", made.Errors, c.beginning, c.at)
			}
			if len(tried.Errors) != 1 || tried.Errors[0].Location != "body.route."+c.at || tried.Errors[0].Message != made.Errors[0].Message {
				t.Errorf("in a backtest: got %+v, want the same at body.route.%s", tried.Errors, c.at)
			}
		})
	}
}
