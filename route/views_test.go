package route_test

import (
	"strings"
	"testing"

	"github.com/eventhook/eventhook"
)

// sent parses an event from an HTTP message: headers, an empty line, and the body.
func sent(text string) *eventhook.Event {
	head, body, _ := strings.Cut(text, "\n\n")
	lines := strings.Split(head, "\n")
	e := carrying(body, lines...)
	e.ContentType = ""
	for _, line := range lines {
		if name, value, _ := strings.Cut(line, ": "); strings.EqualFold(name, "content-type") {
			e.ContentType = value
		}
	}
	return e
}

const (
	binaryEvent = "Content-Type: application/json\nce-specversion: 1.0\nce-id: 7\nce-source: /shop\nce-type: order.made\nce-age: 12\n\n" +
		`{"type":"body's","n":9007199254740993}`
	structuredEvent = "Content-Type: application/cloudevents+json\n\n" +
		`{"specversion":"1.0","id":"7","source":"/shop","type":"order.made","age":12,"datacontenttype":"application/json","data":{"type":"body's","n":9007199254740993}}`
	xmlEvent       = "Content-Type: text/xml\n\n<order id=\"7\"><item>a</item><item>b</item></order>"
	multipartEvent = "Content-Type: multipart/form-data; boundary=XX\n\n--XX\r\nContent-Disposition: form-data; name=\"tag\"\r\n\r\na\r\n" +
		"--XX\r\nContent-Disposition: form-data; name=\"file\"; filename=\"p.txt\"\r\n\r\n12345\r\n--XX--\r\n"
)

func TestFiltersOnOtherContentTypes(t *testing.T) {
	for _, c := range []struct{ event, filter, expression, function string }{
		{xmlEvent, `{"body.order.@id":"7","body.order.item":{"$contains":"b"}}`, "body.order['@id'] == '7' && 'b' in body.order.item", "body.order['@id'] === '7' && body.order.item[1] === 'b'"},
		{multipartEvent, `{"body.tag":"a","body.file.size":{"$gt":4}}`, "body.tag == 'a' && body.file.size > 4", "body.file.filename === 'p.txt'"},
		{binaryEvent, `{"cloudevent.type":"order.made","cloudevent.age":"12","cloudevent.data.n":9007199254740993,"body.type":"body's"}`,
			"cloudevent.type == 'order.made' && cloudevent.age == '12' && cloudevent.data.n == 9007199254740993 && body.type == \"body's\"",
			`cloudevent.type === 'order.made' && cloudevent.age === '12' && cloudevent.data.type === "body's"`},
		{structuredEvent, `{"cloudevent.type":"order.made","cloudevent.age":"12","cloudevent.data.n":9007199254740993,"body.type":"order.made"}`,
			"cloudevent.type == 'order.made' && cloudevent.age == '12' && cloudevent.data.n == 9007199254740993 && body.type == 'order.made'",
			`cloudevent.type === 'order.made' && cloudevent.age === '12' && cloudevent.data.type === "body's"`},
		{"X-A: b\n\n{}", `{"cloudevent.type":{"$exists":false}}`, "!has(cloudevent.type) && size(cloudevent) == 0", "cloudevent === undefined"},
	} {
		r := enabled(newRoute("r", "", "a"))
		r.Filter, r.FilterExpression = []byte(c.filter), c.expression
		r.FilterFunction = "const filter = ({body, cloudevent}) => " + c.function
		if got, reason := verdict(t, r, sent(c.event)); !got {
			t.Errorf("%s\ngot no match (%s), want one", c.event, reason)
		}
	}
}

func TestOtherEventsHaveNoCloudEventAttributes(t *testing.T) {
	r := enabled(newRoute("r", "", "a"))
	r.FilterExpression = "cloudevent.type == 'x'"
	if got, reason := verdict(t, r, sent("X-A: b\n\n{}")); got || !strings.Contains(reason, "no such key: type") {
		t.Errorf("got %t (%s), want no match because of the missing type", got, reason)
	}
}

func TestCloudEventPathsAreChecked(t *testing.T) {
	for path, ok := range map[string]bool{"cloudevent.type": true, "cloudevent.data.a.0": true, "cloudevent": false, "cloudevent.": false, "cloudevent.data..a": false, "cloudevent.id + body.id": false} {
		if faults := check(t, filtered(`{"`+path+`":1}`)); (len(faults) == 0) != ok {
			t.Errorf("%s: got %v, want none: %t", path, faults, ok)
		}
	}
}

// Whole numbers are compared exactly, even if a float64 cannot represent them.
func TestNumbersInExpressionsAreExact(t *testing.T) {
	for _, c := range []struct {
		number, expression string
		want               bool
	}{
		{"9007199254740993", "body.n == 9007199254740993", true},
		{"9007199254740993", "body.n == 9007199254740992", false},
		{"9007199254740993.0", "body.n == 9007199254740993", true},
		{"9007199254740993.0", "body.n == 9007199254740992", false},
		{"9007199254740992.0", "body.n == 9007199254740993", false},
		{"9.007199254740993e15", "body.n > 9007199254740992", true},
		{"-9007199254740993.00", "body.n == -9007199254740993", true},
		{"9223372036854775807", "body.n == 9223372036854775807", true},
		{"1844674407370955161.5e1", "body.n == 18446744073709551615u", true},
		{"18446744073709551615", "body.n > 9223372036854775807", true},
		{"-9223372036854775808.0", "body.n < -9223372036854775807", true},
		{"184467440737095516150", "body.n > 18446744073709551615u", true},
		{"9007199254740993.5", "body.n > 9007199254740990.0", true},
		{"1e400", "body.n > 1", true},
		{"1e999999999999", "body.n > 1", true},
		{"2.0", "body.n / 4.0 == 0.5", true},
		{"1e3", "body.n / 4.0 == 250.0", true},
		{"-0.0", "body.n == 0", true},
	} {
		r := enabled(newRoute("r", "", "a"))
		r.FilterExpression = c.expression
		if got, reason := verdict(t, r, carrying(`{"n":`+c.number+`}`)); got != c.want {
			t.Errorf("%s on %s: got %t (%s), want %t", c.expression, c.number, got, reason, c.want)
		}
	}
}

// If an object repeats a name, filters, scripts and transforms must read the same member.
func TestTheFirstOfRepeatedMembersCounts(t *testing.T) {
	const body = `{"id":"p1","amount":10,"amount":9000,"data":{"x":1,"x":2}}`
	r := enabled(newRoute("r", "", "a"))
	r.Filter, r.FilterExpression, r.FilterFunction = []byte(`{"body.amount":10}`), "body.amount == 10", "const filter = ({body}) => body.amount === 10"
	if got, reason := verdict(t, r, carrying(body)); !got {
		t.Errorf("filters: got no match (%s), want one", reason)
	}
	r = enabled(newRoute("r", "", "a"))
	r.Filter, r.FilterExpression, r.FilterFunction = []byte(`{"cloudevent.data.a":1}`), "cloudevent.data.a == 1", "const filter = ({cloudevent}) => cloudevent.data.a === 1"
	if got, reason := verdict(t, r, sent("Content-Type: application/json\nce-specversion: 1.0\nce-id: 7\nce-source: s\nce-type: t\n\n{\"a\":1,\"a\":2}")); !got {
		t.Errorf("filters of a CloudEvent: got no match (%s), want one", reason)
	}
	for kind, expression := range map[string]string{eventhook.TransformJMESPath: "[amount, data.x]", eventhook.TransformJavaScript: "const transform = ({body}) => [body.amount, body.data.x]"} {
		a := compileReal(shaped(kind, expression)).Settle(nil, carrying(body), nil, noon).Actions[0]
		if got := string(a.Effect.Execution.Input); got != "[10,1]" {
			t.Errorf("%s: got %s, want [10,1]", kind, got)
		}
	}
}

func TestUnusualBodies(t *testing.T) {
	key := strings.Repeat("k", 1<<20)
	for _, c := range []struct {
		claim, contentType, body string
		matches                  bool
	}{
		{"JSON nested 100 000 deep", "application/json", strings.Repeat(`{"a":`, 100_000) + "1" + strings.Repeat("}", 100_000), false},
		{"a name of 1 MB", "application/json", `{"` + key + `":0,"a":"x"}`, true},
		{"a byte order mark", "application/json", "\xef\xbb\xbf" + `{"a":"x"}`, true},
		{"UTF-16", "application/json", "\xff\xfe{\x00\"\x00a\x00\"\x00:\x00\"\x00x\x00\"\x00}\x00", true},
		{"a byte that is not UTF-8", "application/json", "{\"b\":\"\xff\",\"a\":\"x\"}", true},
		{"a NUL", "application/json", "{\"a\":\"x\"\x00}", false},
		{"an entity in XML", "text/xml", `<!DOCTYPE a [<!ENTITY e "x">]><a>&e;</a>`, false},
	} {
		t.Run(c.claim, func(t *testing.T) {
			e := carrying(c.body)
			e.ContentType = c.contentType
			if got, reason := verdict(t, filtered(`{"body.a":"x"}`), e); got != c.matches {
				t.Errorf("got %t (%.200s), want %t", got, reason, c.matches)
			}
		})
	}
}
