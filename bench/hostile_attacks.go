package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/eventhook/eventhook/ingest"
)

// attacks are numbered as in docs/security.md.
var attacks = []attack{
	{name: "1 regular expressions of routes", start: (*hostile).routePatterns},
	{name: "2 regular expressions of subscriptions", start: (*hostile).subscriptionPatterns},
	{name: "3 reserved messages of verifiers", start: (*hostile).reservedPatterns},
	{name: "4 CEL, absent paths, abandoned tests", start: (*hostile).expressions},
	{name: "5 patterns of JSON Schemas", start: (*hostile).schemas},
	{name: "6 senders that stall", start: (*hostile).stallingSenders},
	{name: "7 many keys and fields per request", start: (*hostile).unsignedWork},
	{name: "8 made-up certificate URLs", start: (*hostile).certificateURLs},
	{name: "9 large API requests at once", start: (*hostile).largeRequests},
	{name: "10 large unsigned bodies", start: (*hostile).largeBodies},
	{name: "11 long lists", start: (*hostile).longLists},
	{name: "12 a changed destination", check: (*hostile).changedDestination},
	{name: "13 SNS of any account", check: (*hostile).anyTopic},
	{name: "14 the same bytes as another type", check: (*hostile).resentBody},
	{name: "15 a copied secret", check: (*hostile).copiedSecret},
	{name: "16 smuggled requests, inherited secrets", check: (*hostile).smuggledAndInherited},
}

// patternsFor returns filters of twenty regular expressions each, the most expensive
// first.
func patternsFor(path string) (filters []any) {
	for _, pattern := range []string{`\pL{0,478}!`, `\pL{0,100}!`, `\pL{0,20}!`, `(a|a?)+!`} {
		var or []any
		for range 20 {
			or = append(or, map[string]any{path: map[string]string{"$regex": pattern}})
		}
		filters = append(filters, map[string]any{"$or": or})
	}
	return filters
}

// longText returns JSON whose member t has n letters.
func longText(n int) []byte { return []byte(`{"t":"` + strings.Repeat("a", n) + `"}`) }

const maxSearched = 65_536

// routeWith creates a route of a source with the first condition that the gateway
// accepts.
func (h *hostile) routeWith(ctx context.Context, source, name, field string, conditions ...any) error {
	var bodies []any
	for _, c := range conditions {
		bodies = append(bodies, map[string]any{"name": name, field: c, "targets": []any{map[string]string{"type": "task", "task_kind": "harm"}}})
	}
	return h.createFirstAccepted(ctx, "/sources/"+source+"/routes", bodies...)
}

func (h *hostile) routePatterns(ctx context.Context) (flood, error) {
	sources := []string{"one", "two"}
	for _, source := range sources {
		if err := h.source(ctx, source, plainHMAC(nil)); err != nil {
			return nil, err
		}
		for i := range 4 {
			if err := h.routeWith(ctx, source, fmt.Sprint("r", i), "filter", patternsFor("body.t")...); err != nil {
				return nil, err
			}
		}
	}
	text := longText(maxSearched)
	signature := signatureOf(text)
	return newFlood(len(sources), func(ctx context.Context) {
		for _, source := range sources {
			_, _, _ = h.post(ctx, source, text, signature)
		}
		wait(ctx, 100*time.Millisecond)
	}), nil
}

func (h *hostile) subscriptionPatterns(ctx context.Context) (flood, error) {
	for i := range 3 {
		var bodies []any
		for _, filter := range patternsFor("body.t") {
			bodies = append(bodies, map[string]any{"name": fmt.Sprint("s", i), "url": "http://127.0.0.1:1/", "event_types": []string{"harm"}, "filter": filter})
		}
		if err := h.createFirstAccepted(ctx, "/subscriptions", bodies...); err != nil {
			return nil, err
		}
	}
	const callers = 200
	event := fmt.Appendf(nil, `{"event_type":"harm","data":%s}`, longText(maxSearched))
	return newFlood(callers, func(ctx context.Context) { _, _ = h.callAPI(ctx, http.MethodPost, "/events", event) }), nil
}

func (h *hostile) reservedPatterns(ctx context.Context) (flood, error) {
	const sources = 6
	for i := range sources {
		for _, pattern := range []string{strings.Repeat(`\pL{0,999}!`, 1600), `\pL{0,999}!`, `\pL{0,90}!`, `(a|a?)+!`} {
			status, err := h.callAPI(ctx, http.MethodPost, "/sources", map[string]any{"slug": fmt.Sprint("reserved", i), "name": "reserved",
				"verifier": plainHMAC(map[string]any{"reserved": pattern}), "rate_limit": unlimited})
			if err != nil {
				return nil, err
			}
			if status == http.StatusCreated {
				break
			}
		}
	}
	text := longText(1<<20 - 16)
	signature := signatureOf(text)
	return newFlood(sources, func(ctx context.Context) {
		for i := range sources {
			_, _, _ = h.post(ctx, fmt.Sprint("reserved", i), []byte("{}"), unsigned)
			_, _, _ = h.post(ctx, fmt.Sprint("reserved", i), text, signature)
		}
	}), nil
}

func (h *hostile) expressions(ctx context.Context) (flood, error) {
	if err := h.source(ctx, "cel", plainHMAC(nil)); err != nil {
		return nil, err
	}
	if err := h.routeWith(ctx, "cel", "matches", "filter_expression", `body.t.matches('(\\pL{0,900})!')`, `body.t.matches('\\pL{0,90}!')`); err != nil {
		return nil, err
	}
	absent := map[string]any{}
	for i := range 240 {
		absent[fmt.Sprintf("body.absent%d", i)] = map[string]bool{"$exists": false}
	}
	if err := h.routeWith(ctx, "cel", "absent", "filter", absent); err != nil {
		return nil, err
	}
	test := fmt.Appendf(nil, `{"headers":{},"body":%q}`, longText(1<<20))
	large := []byte(`{"a":[` + strings.Repeat(`"x",`, 6<<20) + `"x"]}`)
	long := longText(1000_000)
	ofLong, ofLarge := signatureOf(long), signatureOf(large)
	return newFlood(4, func(ctx context.Context) {
		abandoned, stop := context.WithTimeout(ctx, 100*time.Millisecond)
		_, _ = h.callAPI(abandoned, http.MethodPost, "/sources/cel/test", test)
		stop()
		_, _, _ = h.post(ctx, "cel", long, ofLong)
		_, _, _ = h.post(ctx, "cel", large, ofLarge)
	}), nil
}

func (h *hostile) schemas(context.Context) (flood, error) {
	properties := map[string]any{}
	for i := range 1600 {
		properties[fmt.Sprint("p", i)] = map[string]string{"pattern": `\pL{0,999}`}
	}
	hostileSchema := map[string]any{"schema": map[string]any{"properties": properties}}
	mild := map[string]any{"schema": map[string]any{"properties": map[string]any{"t": map[string]string{"pattern": `\pL{0,90}!`}}}}
	event := fmt.Appendf(nil, `{"event_type":"harm","data":%s}`, longText(1<<19))
	return newFlood(4, func(ctx context.Context) {
		if status, _ := h.callAPI(ctx, http.MethodPut, "/event-types/harm", hostileSchema); status == http.StatusUnprocessableEntity {
			_, _ = h.callAPI(ctx, http.MethodPut, "/event-types/harm", mild)
		}
		_, _ = h.callAPI(ctx, http.MethodPost, "/events", event)
	}), nil
}

// stallingSenders opens connections that announce 1 MiB, send slightly more than a
// power of two, so that the buffer has just doubled, and then stall.
func (h *hostile) stallingSenders(ctx context.Context) (flood, error) {
	const sources, senders, sent = 5, 290, 524_289
	for i := range sources {
		if err := h.source(ctx, fmt.Sprint("slow", i), plainHMAC(nil)); err != nil {
			return nil, err
		}
	}
	part := bytes.Repeat([]byte("a"), sent)
	return newFlood(senders, func(ctx context.Context) {
		conn, err := attackerDialer.DialContext(ctx, "tcp", h.to.address)
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
		defer stop()
		_, _ = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 1048576\r\n\r\n", ingest.Path(hostileTenant, fmt.Sprint("slow", serial.Add(1)%sources)))
		if _, err := conn.Write(part); err != nil {
			wait(ctx, 10*time.Millisecond)
			return
		}
		_, _ = conn.Read(make([]byte, 1)) // until the gateway answers
	}), nil
}

func (h *hostile) unsignedWork(ctx context.Context) (flood, error) {
	texts, err := manyKeys(16, 100)
	if err != nil {
		return nil, err
	}
	keys := func(texts []string) map[string]any {
		return map[string]any{"type": "public_key", "algorithm": "ecdsa_sha256", "header": "X-Signature", "encoding": "base64", "separator": ",", "public_keys": texts}
	}
	few, err := manyKeys(1, 4)
	if err != nil {
		return nil, err
	}
	source := func(texts []string) any {
		return map[string]any{"slug": "keys", "name": "keys", "verifier": keys(texts), "rate_limit": unlimited}
	}
	if err := h.createFirstAccepted(ctx, "/sources", source(texts), source(texts[:1]), source(few)); err != nil {
		return nil, err
	}
	fields := func(n int) any {
		return map[string]any{"slug": "fields", "name": "fields", "rate_limit": unlimited, "verifier": map[string]any{"type": "body_hmac", "path": "sig",
			"encoding": "hex", "secrets": []string{secret}, "signed": strings.Repeat("{field.absent}", n) + "{field.id}"}}
	}
	if err := h.createFirstAccepted(ctx, "/sources", fields(20_000), fields(1000), fields(30), fields(3)); err != nil {
		return nil, err
	}
	const signature = 139
	forged := strings.TrimSuffix(strings.Repeat(base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{1}, signature))+",", 4), ",")
	many := []byte(`{"sig":"` + strings.Repeat("0", 64) + `"` + strings.Repeat(`,"b":1`, 170_000) + `}`)
	return newFlood(8, func(ctx context.Context) {
		_, _, _ = h.post(ctx, "keys", []byte(`{}`), unsigned, "X-Signature", forged)
		_, _, _ = h.post(ctx, "fields", many, unsigned)
	}), nil
}

// manyKeys returns texts of several PEM blocks each.
func manyKeys(texts, keys int) (list []string, err error) {
	for range texts {
		var text bytes.Buffer
		for range keys {
			key, err := ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
			if err != nil {
				return nil, err
			}
			der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
			if err != nil {
				return nil, err
			}
			if err := pem.Encode(&text, &pem.Block{Type: "PUBLIC KEY", Bytes: der}); err != nil {
				return nil, err
			}
		}
		list = append(list, text.String())
	}
	return list, nil
}

func (h *hostile) certificateURLs(ctx context.Context) (flood, error) {
	source := map[string]any{"slug": "sns", "name": "sns", "provider": "aws-sns", "options": map[string]string{"topic_arn": "arn:aws:sns:us-west-2:123456789012:topic"}, "rate_limit": unlimited}
	if err := h.createFirstAccepted(ctx, "/sources", source); err != nil {
		return nil, err
	}
	return newFlood(16, func(ctx context.Context) {
		_, _, _ = h.post(ctx, "sns", fmt.Appendf(nil, `{"Type":"Notification","MessageId":"1","TopicArn":"arn:aws:sns:us-west-2:123456789012:topic","Message":"m",
"Timestamp":%q,"SignatureVersion":"1","Signature":"AAAA","SigningCertURL":"https://sns.us-west-2.amazonaws.com/SimpleNotificationService-%032x.pem"}`,
			time.Now().UTC().Format("2006-01-02T15:04:05.000Z"), serial.Add(1)), unsigned)
	}), nil
}

func (h *hostile) largeRequests(context.Context) (flood, error) {
	const callers = 40
	large := []byte(`{"event_type":"harm","data":{"a":[` + strings.Repeat(`{},`, 1_300_000) + `{}]}}`)
	deep := []byte(`{"slug":"x","name":[` + strings.Repeat(`{},`, 340_000) + `{}]}`)
	return newFlood(callers, func(ctx context.Context) {
		_, _ = h.callAPI(ctx, http.MethodPost, "/events", large)
		_, _ = h.callAPI(ctx, http.MethodPost, "/sources", deep)
	}), nil
}

func (h *hostile) largeBodies(ctx context.Context) (flood, error) {
	const callers = 8
	for i := range callers {
		verifier := map[string]any{"type": "body_hmac", "path": "sig", "encoding": "hex", "secrets": []string{secret}, "signed": "{field.id}"}
		if err := h.source(ctx, fmt.Sprint("large", i), verifier); err != nil {
			return nil, err
		}
	}
	large := []byte(`{"a":[` + strings.Repeat(`1,`, 15<<20) + `1]}`)
	return newFlood(callers, func(ctx context.Context) {
		_, _, _ = h.post(ctx, fmt.Sprint("large", serial.Add(1)%callers), large, unsigned)
	}), nil
}
