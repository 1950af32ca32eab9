package api_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestExpressionsAreTested(t *testing.T) {
	r := setUp(t)
	path := T("acme") + "/expressions/test"
	for claim, c := range map[string]struct {
		body string
		want object
	}{
		"a filter that holds": {`{"filter":{"body.amount":{"$gte":10}},"body":{"amount":12}}`,
			object{"matched": true, "reason": "the route takes events of every type, and its filters hold", "output": nil, "error": nil}},
		"a filter that does not hold": {`{"filter":{"body.amount":{"$gte":10}},"body":{"amount":7}}`,
			object{"matched": false, "reason": "body.amount is 7, wanted $gte 10", "output": nil, "error": nil}},
		"an expression over a header": {`{"filter_expression":"headers['x-env'] == 'test'","headers":{"X-Env":"test"}}`,
			object{"matched": true, "reason": "the route takes events of every type, and its filters hold", "output": nil, "error": nil}},
		"a transform": {`{"transform":{"type":"jmespath","expression":"{id: data.id}"},"body":{"data":{"id":7}}}`,
			object{"matched": nil, "reason": "", "output": object{"id": 7.0}, "error": nil}},
		"a filter and a transform": {`{"filter_function":"const filter = e => e.body.n == 1","transform":{"type":"javascript","expression":"const transform = e => e.body.n"},"body":{"n":1}}`,
			object{"matched": true, "reason": "the route takes events of every type, and its filters hold", "output": 1.0, "error": nil}},
		"a form": {`{"filter":{"body.a":"b"},"headers":{"content-type":"application/x-www-form-urlencoded"},"body":"a=b"}`,
			object{"matched": true, "reason": "the route takes events of every type, and its filters hold", "output": nil, "error": nil}},
	} {
		got := r.admin("POST", path, c.body).want(http.StatusOK).object()
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", claim, diff)
		}
	}
	failed := r.admin("POST", path, `{"transform":{"type":"javascript","expression":"const transform = e => e.body.a.b"},"body":{}}`).want(http.StatusOK).object()
	if text, _ := failed["error"].(string); !strings.Contains(text, "cannot read property") {
		t.Errorf("a transform that fails: got %v, want its error", failed)
	}
}

func TestBrokenExpressionsAreRefused(t *testing.T) {
	r := setUp(t)
	for body, want := range map[string][]string{
		`{"body":1}`:                                         {"body"},
		`{"filter":{"body.a":{"$x":1}}}`:                     {"body.filter.body.a.$x"},
		`{"filter_expression":"body.a >"}`:                   {"body.filter_expression"},
		`{"transform":{"type":"jmespath","expression":"{"}}`: {"body.transform.expression"},
		`{"filter_expression":"true","colour":1}`:            {"body.colour"},
	} {
		r.wantFaults(r.admin("POST", T("acme")+"/expressions/test", body), 422, want)
	}
}

func TestTransformsOfSubscriptionsAreChecked(t *testing.T) {
	r := setUp(t)
	body := func(expression string) object {
		return object{"name": "s", "url": "https://billing.example/hooks", "event_types": []string{"*"}, "transform": object{"type": "jmespath", "expression": expression}}
	}
	r.wantFaults(r.admin("POST", T("acme")+"/subscriptions", body("{id: ")), 422, []string{"body.transform.expression"})
	created := r.admin("POST", T("acme")+"/subscriptions", body("{id: event_id}")).want(http.StatusCreated).object()
	path := T("acme") + "/subscriptions/" + created["id"].(string)
	r.wantFaults(r.admin("PATCH", path, object{"transform": object{"type": "jmespath", "expression": "nothing(@)"}}), 422, []string{"body.transform.expression"})
	r.admin("PATCH", path, object{"transform": nil, "format": "slack"}).want(http.StatusOK)
}
