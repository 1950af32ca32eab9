package targets_test

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"math/big"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/effects"
	"github.com/eventhook/eventhook/targets"
)

// clientCertificate and clientKey are a pair in PEM, as in JSON. The text before a key in PEM is not a
// part of it.
var clientCertificate, clientKey = newClientPair()

func newClientPair() (certificate, key string) {
	private := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	der, err := x509.CreateCertificate(nil, template, template, private.Public(), private)
	if err != nil {
		panic(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		panic(err)
	}
	inJSON := func(kind string, b []byte) string {
		return strings.ReplaceAll(string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b})), "\n", `\n`)
	}
	return inJSON("CERTIFICATE", der), hush + `\n` + inJSON("PRIVATE KEY", encoded)
}

// onTemporal returns a target with the engine temporal and with additional members.
func onTemporal(target string, more ...string) string {
	members := append([]string{strings.TrimSuffix(target, "}"), `"engine":"temporal","address":"temporal.example:7233","namespace":"acme"`}, more...)
	return strings.Join(members, ",") + "}"
}

const (
	start  = `{"type":"workflow","workflow_kind":"pay"}`
	signal = `{"type":"promise","idempotency_key_path":"body.id","signal_name":"paid"}`
)

func TestSettingsOfTemporal(t *testing.T) {
	for _, c := range []struct {
		claim, target string
		want          []string // locations
	}{
		{"a workflow", onTemporal(start), nil},
		{"a promise", onTemporal(signal), nil},
		{"the engine by its name", `{"type":"workflow","workflow_kind":"pay","engine":"eventhook","priority":1}`, nil},
		{"an unknown engine", `{"type":"workflow","workflow_kind":"pay","engine":"cadence"}`, []string{"engine"}},
		{"no address and no namespace", `{"type":"workflow","workflow_kind":"pay","engine":"temporal"}`, []string{"address", "namespace"}},
		{"an address without a port", onTemporal(start, `"address":"temporal.example"`), []string{"address"}},
		{"two addresses", onTemporal(start, `"address":"a.example:7233,b.example:7233"`), []string{"address"}},
		{"a URL", onTemporal(start, `"address":"https://temporal.example:7233"`), []string{"address"}},
		{"a namespace with a space", onTemporal(start, `"namespace":"a b"`), []string{"namespace"}},
		{"an API key of two lines", onTemporal(start, `"api_key":"a\nb"`), []string{"api_key"}},
		{"a certificate without a key", onTemporal(start, `"certificate":"`+clientCertificate+`"`), []string{"private_key"}},
		{"a key without a certificate", onTemporal(start, `"private_key":"`+clientKey+`"`), []string{"certificate"}},
		{"a key that is none", onTemporal(start, `"certificate":"`+clientCertificate+`","private_key":"x"`), []string{"private_key"}},
		{"a key that is kept", onTemporal(start, `"certificate":"`+clientCertificate+`","private_key":"[redacted]"`), nil},
		{"a CA that is none", onTemporal(start, `"ca":"x"`), []string{"ca"}},
		{"a CA without TLS", onTemporal(start, `"tls":false,"ca":"`+authority+`"`), []string{"ca"}},
		{"an API key without TLS", onTemporal(start, `"tls":false,"api_key":"k"`), nil},
		{"a long timeout", onTemporal(start, `"timeout_seconds":61`), []string{"timeout_seconds"}},
		{"a wrong retry", onTemporal(start, `"retry":{"max_retries":99}`), []string{"retry.max_retries"}},
		{"a negative timeout of the workflow", onTemporal(start, `"run_timeout_seconds":-1`), []string{"run_timeout_seconds"}},
		{
			"settings of the other engine", onTemporal(start, `"max_attempts":1,"priority":1,"idempotency_ttl_seconds":1`),
			[]string{"max_attempts", "priority", "idempotency_ttl_seconds"},
		},
		{"on_missing", onTemporal(signal, `"on_missing":"hold"`), []string{"on_missing"}},
		{"no signal", onTemporal(`{"type":"promise","idempotency_key_path":"body.id"}`), []string{"signal_name"}},
		{"no key of the workflow", onTemporal(`{"type":"promise","signal_name":"paid"}`), []string{"idempotency_key_path"}},
		{
			"settings of Temporal without it", `{"type":"workflow","workflow_kind":"pay","address":"a.example:1","namespace":"n","api_key":"k","tls":true,` +
				`"timeout_seconds":1,"retry":{},"execution_timeout_seconds":1,"run_timeout_seconds":1}`,
			[]string{"address", "namespace", "api_key", "tls", "timeout_seconds", "retry", "execution_timeout_seconds", "run_timeout_seconds"},
		},
		{"a signal without Temporal", signal, []string{"signal_name"}},
		{"a task", onTemporal(`{"type":"task","task_kind":"pay"}`), []string{"address", "engine", "namespace"}},
	} {
		t.Run(c.claim, func(t *testing.T) {
			_, faults := targets.Parse([]byte(c.target), nil)
			var got []string
			for _, f := range faults {
				got = append(got, f.Location)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s: %v (-want +got):\n%s", c.target, faults, diff)
			}
		})
	}
}

// requestTo returns the request of a delivery of an event to a target, and what the delivery stores.
func requestTo(t *testing.T, target string, e *eventhook.Event, transformed string) (targets.TemporalRequest, effects.Effect) {
	t.Helper()
	x := compile(t, target).(*targets.Temporal)
	v := view(e)
	if transformed != "" {
		v = v.WithTransformed([]byte(transformed))
	}
	effect, err := x.Effect(e, v, noon)
	if err != nil {
		t.Fatal(err)
	}
	d := &eventhook.Delivery{ID: eventhook.NewID[eventhook.Delivery](noon), Event: e, Body: effect.Request.Body}
	q, err := x.Compose(d)
	if err != nil || q.ID != d.ID.String() || q.Origin.DeliveryID != d.ID.String() {
		t.Fatalf("got %+v, %v; want the id of the delivery %s", q, err, d.ID)
	}
	return q, effect
}

func TestAWorkflowOfTemporal(t *testing.T) {
	const keyed = `{"type":"workflow","workflow_kind":"pay","idempotency_key_path":"body.id","idempotency_key_prefix":"p:"}`
	e := newEvent("application/json", `{"id":7}`)
	own := e.ID.String() + "/" + eventhook.RouteID{}.String() + "/0"
	for _, c := range []struct {
		claim, target, body, transformed string
		wantID, wantArgument             string
		isStored                         bool
	}{
		{"the key is the id", onTemporal(keyed), `{"id":7}`, "", "p:7", `{"id":7}`, false},
		{"an event without a key has its own id", onTemporal(keyed), `{"id":null}`, "", own, `{"id":null}`, false},
		{"a target without a key, too", onTemporal(start), `{"id":7}`, "", own, `{"id":7}`, false},
		{"text becomes a string", onTemporal(start), `hello`, "", own, `"hello"`, false},
		{"the output of the transform", onTemporal(keyed), `{"id":7}`, `{"made":true}`, "p:7", `{"made":true}`, true},
	} {
		t.Run(c.claim, func(t *testing.T) {
			e.ContentType, e.Body = "application/json", []byte(c.body)
			q, effect := requestTo(t, c.target, e, c.transformed)
			if q.WorkflowID != c.wantID || string(q.Argument) != c.wantArgument || (effect.Request.Body != nil) != c.isStored {
				t.Errorf("got id %q, argument %s, stored %s; want %q, %s, stored: %t", q.WorkflowID, q.Argument, effect.Request.Body, c.wantID, c.wantArgument, c.isStored)
			}
		})
	}
	q, _ := requestTo(t, onTemporal(start), e, "")
	if diff := cmp.Diff(&targets.WorkflowStart{Type: "pay", Queue: "default"}, q.Start); diff != "" || q.Signal != "" {
		t.Errorf("by default, signal %q (-want +got):\n%s", q.Signal, diff)
	}
	q, _ = requestTo(t, onTemporal(start, `"queue":"q","execution_timeout_seconds":7,"run_timeout_seconds":5`), e, "")
	if diff := cmp.Diff(&targets.WorkflowStart{"pay", "q", 7 * time.Second, 5 * time.Second}, q.Start); diff != "" {
		t.Errorf("all settings (-want +got):\n%s", diff)
	}
}

// An event whose payload is processed again starts another workflow, but signals the same one.
func TestAnEventThatIsProcessedAgainStartsAnotherWorkflow(t *testing.T) {
	e := newEvent("application/json", `{"id":7}`)
	e.ReprocessedFrom = eventhook.NewID[eventhook.Event](noon)
	started, _ := requestTo(t, onTemporal(`{"type":"workflow","workflow_kind":"pay","idempotency_key_path":"body.id"}`), e, "")
	signalled, _ := requestTo(t, onTemporal(signal), e, "")
	if started.WorkflowID != "7:"+e.ID.String() || signalled.WorkflowID != "7" {
		t.Errorf("got %q and %q, want the id of the event in the first only", started.WorkflowID, signalled.WorkflowID)
	}
}

func TestASignalOfTemporal(t *testing.T) {
	for _, c := range []struct {
		claim, target, body, transformed, want string
		isStored                               bool
	}{
		{"the whole body", onTemporal(signal), `{"id":7}`, "", `{"id":7}`, false},
		{"the output of the transform", onTemporal(signal), `{"id":7}`, `{"made":true}`, `{"made":true}`, true},
		{"the value at value_path", onTemporal(signal, `"value_path":"body.v"`), `{"id":7,"v":[1]}`, `{"made":true}`, `[1]`, false},
		{"no value there", onTemporal(signal, `"value_path":"body.v"`), `{"id":7}`, "", `null`, false},
		{"the error at error_path", onTemporal(signal, `"error_path":"body.e"`), `{"id":7,"e":{"code":"<5>"}}`, "", `{"error":{"code":"<5>"}}`, false},
		{"no error there", onTemporal(signal, `"error_path":"body.e","value_path":"body.id"`), `{"id":7,"e":null}`, "", `7`, false},
		{"resolve: false", onTemporal(signal, `"resolve":false`), `{"id":7}`, "", `{"error":"rejected by the webhook"}`, false},
	} {
		t.Run(c.claim, func(t *testing.T) {
			q, effect := requestTo(t, c.target, newEvent("application/json", c.body), c.transformed)
			if q.WorkflowID != "7" || q.Signal != "paid" || q.Start != nil || string(q.Argument) != c.want || (effect.Request.Body != nil) != c.isStored {
				t.Errorf("got %+v with %s, stored %s; want the signal paid to 7 with %s, stored: %t", q, q.Argument, effect.Request.Body, c.want, c.isStored)
			}
		})
	}
	if _, err := effectOf(t, onTemporal(signal), `{"id":{}}`); err == nil || !strings.Contains(err.Error(), "body.id") {
		t.Errorf("without a key: got %v, want an error that names its path", err)
	}
}

func TestTheOriginOfARequestToTemporal(t *testing.T) {
	e := newEvent("application/json", `{}`)
	e.EventType, e.SourceSlug, e.RequestID = "payment.made", "shop", "req-1"
	q, effect := requestTo(t, onTemporal(start, `"api_key":"`+hush+`"`), e, "")
	want := targets.TemporalOrigin{EventID: e.ID.String(), EventType: "payment.made", Source: "shop", TenantID: e.TenantID.String(), DeliveryID: q.ID,
		RequestID: "req-1", Traceparent: eventhook.Traceparent(e.Trace(), e.Span(), e.TraceFlags())}
	if diff := cmp.Diff(want, q.Origin); diff != "" {
		t.Errorf("origin (-want +got):\n%s", diff)
	}
	var preview map[string]any
	if err := json.Unmarshal(effect.Request.Preview(), &preview); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]any{"server": "temporal.example:7233", "namespace": "acme", "workflow_id": q.WorkflowID, "workflow_type": "pay",
		"task_queue": "default", "argument": map[string]any{}, "argument_size": 2.0}, preview); diff != "" {
		t.Errorf("preview (-want +got):\n%s", diff)
	}
}

func TestConnectionsToTemporal(t *testing.T) {
	connection := func(more ...string) string {
		return compile(t, onTemporal(start, more...)).(*targets.Temporal).Connection()
	}
	same := connection()
	for _, more := range []string{`"namespace":"other"`, `"api_key":"k"`, `"timeout_seconds":3`, `"tls":true`} {
		if connection(more) != same {
			t.Errorf("%s: got another connection, want the same", more)
		}
	}
	for _, more := range []string{`"address":"b.example:7233"`, `"tls":false`, `"ca":"` + authority + `"`,
		`"certificate":"` + clientCertificate + `","private_key":"` + clientKey + `"`} {
		if connection(more) == same {
			t.Errorf("%s: got the same connection, want another", more)
		}
	}
}

func TestATestOfATargetOfTemporalChecksItsHost(t *testing.T) {
	refused := errors.New("the address is not public")
	check := func(u *url.URL) error {
		if u.Host == "temporal.example:7233" {
			return refused
		}
		return nil
	}
	if _, err := targets.New(read(t, onTemporal(start)), targets.Deps{CheckHost: check}); !errors.Is(err, refused) {
		t.Errorf("got %v, want that the address is not public", err)
	}
}

func TestNeedsTemporal(t *testing.T) {
	for text, want := range map[string]bool{onTemporal(start): true, onTemporal(signal): true, start: false, promiseTarget(): false,
		completeTargets["http"]: false} {
		if got := targets.NeedsTemporal(read(t, text)); got != want {
			t.Errorf("%s: got %t", text, got)
		}
	}
}

// The API key must not reach another server, nor may the private key.
func TestSecretsForTemporalAreSentToTheirAddressOnly(t *testing.T) {
	stored := []eventhook.Target{read(t, onTemporal(start, `"api_key":"`+hush+`"`))}
	kept := func(more string) eventhook.Faults {
		_, faults := targets.KeepSecrets([]eventhook.Target{read(t, onTemporal(start, `"api_key":"[redacted]"`, more))}, stored)
		return faults
	}
	if faults := kept(`"namespace":"other"`); len(faults) > 0 {
		t.Errorf("another namespace: got %v, want no faults", faults)
	}
	if faults := kept(`"address":"evil.example:7233"`); len(faults) != 1 || faults[0].Location != "[0].api_key" {
		t.Errorf("another address: got %v, want that the key must be set again", faults)
	}
}
