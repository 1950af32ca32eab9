package portal_test

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/eventhook/eventhook/client"
)

// mostHTML is the largest page that hostile or large texts may make, without compression.
const mostHTML = 512 << 10

// isSmall fails the test unless a page has at most most bytes.
func (r reply) isSmall(name string, most int) reply {
	r.Helper()
	if len(r.body) > most {
		r.Errorf("%s: the page has %d bytes, want at most %d", name, len(r.body), most)
	}
	return r
}

func TestPageOfADeliveryIsSmall(t *testing.T) {
	f := newFixture(t)
	for name, body := range map[string]string{
		"deep lists": strings.Repeat("[", 9_000) + strings.Repeat("]", 9_000),
		"quotes":     "[" + strings.Repeat(`"\"<",`, 9_000) + "0]",
		"text":       strings.Repeat("é", 32<<10),
	} {
		f.answer("GET "+T+"/deliveries/"+ownDelivery+"/request", client.DeliveryRequest{BodyBase64: []byte(body)[:min(len(body), 64<<10)], BodySize: int64(len(body))})
		f.get("/portal/deliveries/"+ownDelivery).is(http.StatusOK).isSmall(name, mostHTML).lacks("\uFFFD")
		if got, want := f.called("GET "+T+"/deliveries/"+ownDelivery+"/request").Query, "max_bytes=65536"; got != want {
			t.Errorf("request, got the query %q, want %q", got, want)
		}
	}
	f.answer("GET "+T+"/deliveries/"+ownDelivery+"/request", client.DeliveryRequest{BodyBase64: []byte(`{"a":1,"b":"` + strings.Repeat("é", 1000))[:1001], BodySize: 1 << 20})
	f.get("/portal/deliveries/"+ownDelivery).is(http.StatusOK).shows("1 MB", "This is the beginning of the payload.", `<div class="tree">`).lacks("binary")
}

func TestRefreshOfADeliveryReadsNoPayload(t *testing.T) {
	f := newFixture(t)
	r := f.request(http.MethodGet, "/portal/deliveries/"+ownDelivery, nil)
	r.Header.Set("HX-Request", "true")
	f.do(r).is(http.StatusOK).shows(`id="delivery"`)
	if slices.ContainsFunc(f.api.calls, func(c apiCall) bool { return strings.HasSuffix(c.Call, "/request") }) {
		t.Errorf("a refresh reads the request: %v", f.api.calls)
	}
}

func TestCatalogueWithLargeSchemasIsShown(t *testing.T) {
	f := newFixture(t)
	var types []client.EventType
	for i := range 300 {
		types = append(types, client.EventType{Name: "type." + strconv.Itoa(i), Visibility: "portal", Schema: map[string]any{"const": strings.Repeat("<", 4000)}})
	}
	f.answer("GET "+T+"/event-types", client.EventTypePage{Items: types})
	f.get("/portal/types").is(http.StatusOK).isSmall("catalogue", 4<<20).shows("type.0", "type.299", "JSON Schema</summary>", "no room for the JSON Schema")
	f.get("/portal/endpoints/new").is(http.StatusOK).isSmall("form", 4<<20).shows("type.299")
}

func TestPagesHoldTheMemoryOfTheirCalls(t *testing.T) {
	f := newFixture(t)
	f.get("/portal/deliveries/" + ownDelivery)
	for _, c := range f.api.calls {
		if c.Session.Memory == nil || c.Session.Memory != f.api.calls[0].Session.Memory {
			t.Errorf("%s: memory %p, want that of the page", c.Call, c.Session.Memory)
		}
	}
}
