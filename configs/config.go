// Package configs reads two kinds of configuration: the settings of the gateway (a
// YAML file, overridden by EVENTHOOK_ variables, overridden by flags) and files that
// describe tenants with their sources, routes and subscriptions. It is strict: an
// unknown key is a fault, and an error lists every fault by its key. No error
// contains a secret.
package configs

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/ingest"
	"github.com/eventhook/eventhook/ingest/consume"
	"github.com/eventhook/eventhook/internal/branding"
	"github.com/eventhook/eventhook/internal/cpushare"
	"github.com/eventhook/eventhook/internal/openid"
	"github.com/eventhook/eventhook/outbound"
	"github.com/eventhook/eventhook/route"
)

// Config holds the settings of the gateway, with one section for each package. The
// tag `config` of a field is its key. A Config prints, logs and marshals without its
// secrets; fmt bypasses that only for a Config in an unexported field of another
// struct.
type Config struct {
	DatabaseURL      string          `config:"database_url"` // "" starts an embedded PostgreSQL
	DataDir          string          `config:"data_dir"`
	Roles            []string        `config:"roles"` // of this instance; see Roles
	Listen           string          `config:"listen"`
	ManagementListen string          `config:"management_listen"`
	PProf            bool            `config:"pprof"` // Go's profiler on the management listener
	PublicURL        string          `config:"public_url"`
	AdminKey         string          `config:"admin_key"`       // several keys are separated by commas, the newest first
	AdminReadKey     string          `config:"admin_read_key"`  // may read everything and change nothing; like AdminKey
	EncryptionKeys   []string        `config:"encryption_keys"` // base64, newest first
	TrustedProxies   []string        `config:"trusted_proxies"`
	LeaseSeconds     int             `config:"lease_seconds"`
	StopTimeout      time.Duration   `config:"stop_timeout"`
	Retention        Retention       `config:"retention"`
	Database         Database        `config:"database"`
	Log              Log             `config:"log"`
	Metrics          Metrics         `config:"metrics"`
	Server           Server          `config:"server"`
	TLS              TLS             `config:"tls"`
	API              API             `config:"api"`
	Outbound         Outbound        `config:"outbound"`
	Ingest           ingest.Config   `config:"ingest"`
	Consume          consume.Config  `config:"consume"`
	Route            route.Config    `config:"route"`
	Evaluation       cpushare.Config `config:"evaluation"`
	Console          Console         `config:"console"`
	Portal           branding.Config `config:"portal"`
}

// Console says how people sign in to the console besides with keys.
type Console struct {
	OpenID openid.Config `config:"openid"`
}

// Metrics says what the metrics contain.
type Metrics struct {
	TenantLabel bool `config:"tenant_label"` // count events and deliveries by tenant, too
}

// Retention says for how many days data is stored; 0 means without end.
type Retention struct {
	EventsDays     int `config:"events_days"`
	BodiesDays     int `config:"bodies_days"`
	DeliveriesDays int `config:"deliveries_days"`
	AuditDays      int `config:"audit_days"`
}

// Database says how an instance connects to its database.
type Database struct {
	DirectURL   string        `config:"direct_url"`   // PostgreSQL itself, if database_url is a pooler in transaction mode
	ReadURL     string        `config:"read_url"`     // a streaming replica for lists; "" for none
	ReadMaxLag  time.Duration `config:"read_max_lag"` // a list from the replica has all changes that are older
	AcceptConns int           `config:"accept_conns"`
	WorkConns   int           `config:"work_conns"`
	ListConns   int           `config:"list_conns"`
}

func (d Database) validate(f *eventhook.Faults, isConfigured bool) {
	for _, v := range []struct{ key, url string }{{"database.direct_url", d.DirectURL}, {"database.read_url", d.ReadURL}} {
		switch {
		case v.url == "":
		case !isDatabaseURL(v.url):
			f.Add(v.key, "is not a PostgreSQL URL such as postgres://user@host:5432/database")
		case !isConfigured:
			f.Add(v.key, "requires a database_url")
		}
	}
	if d.ReadMaxLag < time.Second || d.ReadMaxLag > time.Hour {
		f.Add("database.read_max_lag", "%s, want 1s to 1h", d.ReadMaxLag)
	}
}

// Server limits how long an HTTP client may take.
type Server struct {
	ReadHeaderTimeout time.Duration `config:"read_header_timeout"`
	ReadTimeout       time.Duration `config:"read_timeout"` // for headers and body
	IdleTimeout       time.Duration `config:"idle_timeout"` // between two requests of a connection
}

// API limits the resources of API requests on one instance. Bytes count memory: each
// request counts with the decoded size of its body and its response.
type API struct {
	InFlightBytes  int64 `config:"in_flight_bytes"`
	TenantBytes    int64 `config:"tenant_bytes"`
	KeyBytes       int64 `config:"key_bytes"`
	TenantRequests int   `config:"tenant_requests"`
	KeyRequests    int   `config:"key_requests"`
}

func (a API) validate(f *eventhook.Faults) {
	const minBytes, minRequests = 1 << 20, 4
	for _, v := range []struct {
		key        string
		value, min int64
	}{
		{"api.in_flight_bytes", a.InFlightBytes, minBytes},
		{"api.tenant_bytes", a.TenantBytes, minBytes},
		{"api.key_bytes", a.KeyBytes, minBytes},
		{"api.tenant_requests", int64(a.TenantRequests), minRequests},
		{"api.key_requests", int64(a.KeyRequests), minRequests},
	} {
		if v.value < v.min {
			f.Add(v.key, "%d, want at least %d", v.value, v.min)
		}
	}
}

// Log configures the log.
type Log struct {
	Level  string `config:"level"`  // debug, info, warn, error
	Format string `config:"format"` // text, json
}

// Outbound restricts the addresses that the gateway sends requests to.
type Outbound struct {
	AllowPrivateNetworks bool     `config:"allow_private_networks"`
	AllowedCIDRs         []string `config:"allowed_cidrs"` // networks that are allowed although they are not public
	// ProxyURL is the URL of an HTTP proxy for all requests, "" for none. It may contain
	// a password. The proxy resolves host names, and decides which addresses are allowed.
	ProxyURL     string `config:"proxy_url"`
	RequireHTTPS bool   `config:"require_https"` // refuse subscriptions with http URLs

	Publish  outbound.PublishConfig `config:"publish"`
	Dispatch outbound.Config        `config:"dispatch"`
}

// Proxy returns the URL of the proxy, or nil if none is set or if Validate refuses
// it.
func (o Outbound) Proxy() *url.URL {
	u, err := url.Parse(o.ProxyURL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || strings.Trim(u.Path, "/")+u.RawQuery+u.Fragment != "" {
		return nil
	}
	return u
}

// Prefixes returns the allowed networks without the networks that Validate refuses.
func (o Outbound) Prefixes() (list []netip.Prefix) {
	for _, text := range o.AllowedCIDRs {
		if p, err := netip.ParsePrefix(text); err == nil {
			list = append(list, p)
		}
	}
	return list
}

func (o Outbound) validate(f *eventhook.Faults) {
	for i, text := range o.AllowedCIDRs {
		if _, err := netip.ParsePrefix(text); err != nil {
			f.Add(fmt.Sprintf("outbound.allowed_cidrs[%d]", i), "is not a network such as 10.1.0.0/16 or fd00::/8; one address is 10.1.2.3/32")
		}
	}
	if o.ProxyURL != "" && o.Proxy() == nil {
		f.Add("outbound.proxy_url", "is not the URL of an HTTP proxy such as http://proxy.example:3128")
	}
}

// Default returns the configuration of a gateway without a file, variables or flags.
func Default() Config {
	return Config{
		DataDir:          "./data",
		Roles:            Roles(),
		Listen:           ":8080",
		ManagementListen: ":9980",
		LeaseSeconds:     30,
		StopTimeout:      30 * time.Second,
		Retention:        Retention{EventsDays: 90, BodiesDays: 90, DeliveriesDays: 14, AuditDays: 400},
		Database:         Database{ReadMaxLag: 5 * time.Second, AcceptConns: 4, WorkConns: 16, ListConns: 4},
		Log:              Log{Level: "info", Format: "text"},
		Server:           Server{ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 60 * time.Second, IdleTimeout: 120 * time.Second},
		API:              API{InFlightBytes: 256 << 20, TenantBytes: 64 << 20, KeyBytes: 48 << 20, TenantRequests: 512, KeyRequests: 256},
		Outbound:         Outbound{Publish: outbound.DefaultPublishConfig(), Dispatch: outbound.DefaultConfig()},
		Ingest:           ingest.DefaultConfig(),
		Consume:          consume.DefaultConfig(),
		Route:            route.DefaultConfig(),
		Evaluation:       cpushare.DefaultConfig(),
		Console:          Console{OpenID: openid.DefaultConfig()},
	}
}

// Lease returns how long an instance leases work before other instances may claim
// it.
func (c Config) Lease() time.Duration { return time.Duration(c.LeaseSeconds) * time.Second }

// Validate returns every fault by its key. It changes nothing.
func (c Config) Validate() eventhook.Faults {
	var f eventhook.Faults
	c.validateAddresses(&f)
	c.validateRoles(&f)
	c.TLS.validate(&f)
	if c.DatabaseURL != "" && !isDatabaseURL(c.DatabaseURL) {
		f.Add("database_url", "is not a PostgreSQL URL such as postgres://user@host:5432/database")
	}
	c.Database.validate(&f, c.DatabaseURL != "")
	if c.DatabaseURL == "" && c.DataDir == "" {
		f.Add("data_dir", "is required without a database_url")
	}
	if c.DatabaseURL != "" && len(c.EncryptionKeys) == 0 {
		f.Add("encryption_keys", "is required with a database_url; create one with: openssl rand -base64 32")
	}
	if c.DatabaseURL != "" && c.AdminKey == "" {
		f.Add("admin_key", "is required with a database_url")
	}
	c.validateAdminKeys(&f)
	if c.StopTimeout < time.Second {
		f.Add("stop_timeout", "%s, want at least 1s", c.StopTimeout)
	}
	for _, v := range []struct {
		key              string
		value, low, high int
	}{
		{"lease_seconds", c.LeaseSeconds, 1, 3600},
		{"retention.events_days", c.Retention.EventsDays, 0, 36500},
		{"retention.bodies_days", c.Retention.BodiesDays, 0, 36500},
		{"retention.deliveries_days", c.Retention.DeliveriesDays, 0, 36500},
		{"retention.audit_days", c.Retention.AuditDays, 0, 36500},
		{"database.accept_conns", c.Database.AcceptConns, 1, 1000},
		{"database.work_conns", c.Database.WorkConns, 2, 1000},
		{"database.list_conns", c.Database.ListConns, 1, 1000},
	} {
		if v.value < v.low || v.value > v.high {
			f.Add(v.key, "%d, want %d to %d", v.value, v.low, v.high)
		}
	}
	for _, v := range []struct {
		key   string
		value time.Duration
	}{
		{"server.read_header_timeout", c.Server.ReadHeaderTimeout},
		{"server.read_timeout", c.Server.ReadTimeout},
		{"server.idle_timeout", c.Server.IdleTimeout},
	} {
		if v.value < time.Second {
			f.Add(v.key, "%s, want at least 1s", v.value)
		}
	}
	c.API.validate(&f)
	c.Outbound.validate(&f)
	f.Merge("outbound.publish", c.Outbound.Publish.Validate())
	f.Merge("outbound.dispatch", c.Outbound.Dispatch.Validate())
	validateOneOf(&f, "log.level", c.Log.Level, "debug", "info", "warn", "error")
	validateOneOf(&f, "log.format", c.Log.Format, "text", "json")
	ingestConfig := c.Ingest
	ingestConfig.TrustedProxies = nil // reported below under its top-level key
	f.Merge("ingest", ingestConfig.Validate())
	f.Merge("consume", c.Consume.Validate())
	f.Merge("route", c.Route.Validate())
	f.Merge("evaluation", c.Evaluation.Validate())
	f.Merge("console.openid", c.Console.OpenID.Validate())
	f.Merge("portal", c.Portal.Validate())
	f.Merge("", ingest.Config{TrustedProxies: c.TrustedProxies}.ValidateProxies())
	return f
}

func (c Config) validateAddresses(f *eventhook.Faults) {
	for _, v := range []struct{ key, value string }{{"listen", c.Listen}, {"management_listen", c.ManagementListen}} {
		_, port, err := net.SplitHostPort(v.value)
		if err == nil {
			_, err = strconv.ParseUint(port, 10, 16)
		}
		if err != nil {
			f.Add(v.key, "is not an address such as :8080")
		}
	}
	if c.PublicURL != "" {
		u, err := url.Parse(c.PublicURL)
		if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
			f.Add("public_url", "is not a URL such as https://hooks.example.com")
		}
	}
}

// isDatabaseURL reports whether s has a form that libpq accepts: a URL, or
// parameters such as host=db. The hosts of a URL are separated by commas.
func isDatabaseURL(s string) bool {
	if !strings.HasPrefix(s, "postgres://") && !strings.HasPrefix(s, "postgresql://") {
		return !strings.Contains(s, "://") && strings.Contains(s, "=")
	}
	u, err := url.Parse(s)
	if err != nil {
		return false
	}
	for host := range strings.SplitSeq(u.Host, ",") {
		if !eventhook.IsPort((&url.URL{Host: host}).Port()) {
			return false
		}
	}
	sslModes := []string{"", "disable", "allow", "prefer", "require", "verify-ca", "verify-full"}
	return slices.Contains(sslModes, u.Query().Get("sslmode"))
}

func validateOneOf(f *eventhook.Faults, key, value string, allowed ...string) {
	for _, a := range allowed {
		if value == a {
			return
		}
	}
	f.Add(key, "must be one of %s", strings.Join(allowed, ", "))
}
