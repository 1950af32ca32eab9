package targets

import (
	"cmp"
	"crypto/sha256"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/eventhook/eventhook"
)

// Values of engine: where workflows run, and promises are kept.
const (
	engineEventhook = "eventhook"
	engineTemporal  = "temporal"
)

// EngineSettings choose the engine of workflows and promises, and name the cluster of Temporal.
type EngineSettings struct {
	Engine         string       `json:"engine,omitempty" enum:"eventhook,temporal" doc:"eventhook, the default: the gateway keeps workflows and promises, and workers claim workflows from it. temporal: a cluster of Temporal runs the workflow, and the outcome of a promise is a signal to it. It needs a gateway that was built with its client."`
	Address        string       `json:"address,omitempty" maxLength:"255" example:"my-namespace.a1b2c.tmprl.cloud:7233" doc:"Host and port of the frontend of Temporal. Required by the engine temporal."`
	Namespace      string       `json:"namespace,omitempty" maxLength:"255" example:"my-namespace.a1b2c" doc:"The namespace of Temporal, which must exist. Required by the engine temporal."`
	APIKey         string       `json:"api_key,omitempty" secret:"address" maxLength:"4096" doc:"API key for Temporal. It is sent as a bearer token."`
	TLS            *bool        `json:"tls,omitempty" doc:"Whether to connect with TLS. The default is true."`
	Certificate    string       `json:"certificate,omitempty" maxLength:"65536" doc:"Client certificate in PEM. It needs private_key."`
	PrivateKey     string       `json:"private_key,omitempty" secret:"address" maxLength:"16384" doc:"Private key of certificate in PEM, not encrypted."`
	CA             string       `json:"ca,omitempty" maxLength:"65536" doc:"Certificates in PEM that replace the system's authorities."`
	TimeoutSeconds int          `json:"timeout_seconds,omitempty" minimum:"0" maximum:"60" doc:"How long to wait for the acknowledgement of Temporal, in seconds. 0 means the default, 10."`
	Retry          *TargetRetry `json:"retry,omitempty" doc:"When a failed attempt is repeated. The default is the retry policy of the source. Of terminal_statuses, only 404 applies, to signals: the workflow does not exist or has ended."`
}

func (s EngineSettings) usesTemporal() bool { return s.Engine == engineTemporal }

// Check reports every fault by its member.
func (s EngineSettings) Check() (f eventhook.Faults) {
	checkOneOf(&f, "engine", s.Engine, engineEventhook, engineTemporal)
	if !s.usesTemporal() {
		checkUnfit(&f, "needs the engine temporal",
			setting{"address", s.Address != ""}, setting{"namespace", s.Namespace != ""}, setting{"api_key", s.APIKey != ""}, setting{"tls", s.TLS != nil},
			setting{"certificate", s.Certificate != ""}, setting{"private_key", s.PrivateKey != ""}, setting{"ca", s.CA != ""},
			setting{"timeout_seconds", s.TimeoutSeconds != 0}, setting{"retry", s.Retry != nil})
		return f
	}
	checkAddress(&f, "address", s.Address, "temporal.example:7233")
	if !isToken(s.Namespace) {
		f.Add("namespace", "is required: 1 to %d printable ASCII characters without spaces", maxToken)
	}
	if s.APIKey != "" && (strings.ContainsFunc(s.APIKey, isNoTokenCharacter) || len(s.APIKey) > eventhook.MaxHeaderValue) {
		f.Add("api_key", "must be at most %d printable ASCII characters without spaces", eventhook.MaxHeaderValue)
	}
	s.checkTLS(&f)
	checkRange(&f, "timeout_seconds", s.TimeoutSeconds, 0, maxTimeout)
	f.Merge("retry", s.Retry.Policy().Validate())
	return f
}

func (s EngineSettings) checkTLS(f *eventhook.Faults) {
	if !s.UsesTLS() {
		checkUnfit(f, "needs tls", setting{"certificate", s.Certificate != ""}, setting{"private_key", s.PrivateKey != ""}, setting{"ca", s.CA != ""})
		return
	}
	switch {
	case s.Certificate == "" && s.PrivateKey == "":
		checkCA(f, s.CA)
	case s.PrivateKey == "":
		f.Add("private_key", "is required by certificate")
	case s.Certificate == "":
		f.Add("certificate", "is required by private_key")
	default:
		a := s.auth()
		wrong := a.Validate()
		*f = append(*f, slices.DeleteFunc(wrong, func(one eventhook.Fault) bool { return a.IsRedacted(one.Location) })...) // KeepSecrets replaces or reports these
	}
}

func (s EngineSettings) auth() eventhook.Auth {
	return eventhook.Auth{Type: eventhook.AuthMTLS, Certificate: s.Certificate, PrivateKey: s.PrivateKey, CA: s.CA}
}

// UsesTLS reports whether connections use TLS.
func (s EngineSettings) UsesTLS() bool { return s.TLS == nil || *s.TLS }

// KeyPair returns the client certificate, and false without one.
func (s EngineSettings) KeyPair() (tls.Certificate, bool) {
	if s.Certificate == "" {
		return tls.Certificate{}, false
	}
	pair, _, err := s.auth().KeyPair()
	return pair, err == nil // was checked
}

// Connection identifies a connection: two targets whose Connection is equal can share one. It is a hash,
// and reveals no credentials. The namespace and the API key are parts of each request.
func (s EngineSettings) Connection() string {
	raw, err := json.Marshal([]any{s.Address, s.UsesTLS(), s.Certificate, s.PrivateKey, s.CA})
	if err != nil {
		panic(err) // a list of texts
	}
	return fmt.Sprintf("%s %x", engineTemporal, sha256.Sum256(raw))
}

// compile returns the part of a target of Temporal that workflows and promises share.
func (s EngineSettings) compile(d Deps, key IdempotencyKeySettings) (*Temporal, error) {
	if d.CheckHost != nil {
		if err := d.CheckHost(&url.URL{Scheme: engineTemporal, Host: s.Address}); err != nil {
			return nil, err
		}
	}
	path, err := key.compile()
	return &Temporal{EngineSettings: s, key: path, keyAt: key.IdempotencyKeyPath, place: fmt.Sprintf("%s/%d", d.route, d.index)}, err
}

// Timeout is how long to wait for the acknowledgement of a request.
func (t *Temporal) Timeout() time.Duration {
	return time.Duration(cmp.Or(t.TimeoutSeconds, defaultTimeout)) * time.Second
}

// RetryPolicy returns the target's retry policy, and false if the source's policy applies.
func (t *Temporal) RetryPolicy() (eventhook.RetryPolicy, bool) {
	return t.Retry.Policy(), t.Retry != nil
}

// NeedsTemporal reports whether the effects of a target are requests to Temporal.
func NeedsTemporal(t eventhook.Target) bool {
	var s struct{ Engine string }
	isOne := t.Type == eventhook.TargetWorkflow || t.Type == eventhook.TargetPromise
	return isOne && json.Unmarshal(t.Settings, &s) == nil && s.Engine == engineTemporal
}

// setting is a member, and whether it is set.
type setting struct {
	name  string
	isSet bool
}

// checkUnfit adds a fault for each setting that is set, although it does not fit the other settings.
func checkUnfit(f *eventhook.Faults, fault string, settings ...setting) {
	for _, s := range settings {
		if s.isSet {
			f.Add(s.name, "%s", fault)
		}
	}
}

const maxToken = 255

func isToken(s string) bool {
	return s != "" && len(s) <= maxToken && !strings.ContainsFunc(s, isNoTokenCharacter)
}

func isNoTokenCharacter(c rune) bool { return c <= ' ' || c > '~' }
