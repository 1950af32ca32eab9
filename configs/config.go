// Package configs reads what the gateway is configured with: its own settings
// (a YAML file, over it EVENTHOOK_* variables, over them flags) and the
// tenants' sources and routes as code. It is strict: an unknown key is an
// error, and every fault is told at once, by its key.
package configs

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/ingest"
	"github.com/eventhook/eventhook/internal/cpushare"
	"github.com/eventhook/eventhook/outbound"
	"github.com/eventhook/eventhook/route"
)

// Config is the gateway's configuration. Each room has its own part. It prints,
// logs and marshals without its secrets; only in an unexported field of
// something else that is printed fmt goes around that.
type Config struct {
	DatabaseURL      string          `config:"database_url"` // empty: the embedded default
	DataDir          string          `config:"data_dir"`
	Listen           string          `config:"listen"`
	ManagementListen string          `config:"management_listen"`
	PProf            bool            `config:"pprof"` // Go's profiler on the management listener
	PublicURL        string          `config:"public_url"`
	AdminKey         string          `config:"admin_key"`
	EncryptionKeys   []string        `config:"encryption_keys"` // base64, the newest first
	TrustedProxies   []string        `config:"trusted_proxies"`
	LeaseSeconds     int             `config:"lease_seconds"`
	StopTimeout      time.Duration   `config:"stop_timeout"`
	Retention        Retention       `config:"retention"`
	Database         Database        `config:"database"`
	Log              Log             `config:"log"`
	Server           Server          `config:"server"`
	API              API             `config:"api"`
	Outbound         Outbound        `config:"outbound"`
	Ingest           ingest.Config   `config:"ingest"`
	Route            route.Config    `config:"route"`
	Evaluation       cpushare.Config `config:"evaluation"`
}

// Retention is for how many days data is kept; 0 keeps it.
type Retention struct {
	EventsDays     int `config:"events_days"`
	BodiesDays     int `config:"bodies_days"`
	DeliveriesDays int `config:"deliveries_days"`
	AuditDays      int `config:"audit_days"`
}

// Database says how many connections an instance uses.
type Database struct {
	AcceptConns int `config:"accept_conns"`
	WorkConns   int `config:"work_conns"`
	ListConns   int `config:"list_conns"`
}

// Server bounds how long a client may take, whatever its pace.
type Server struct {
	ReadHeaderTimeout time.Duration `config:"read_header_timeout"`
	ReadTimeout       time.Duration `config:"read_timeout"` // header and body
	IdleTimeout       time.Duration `config:"idle_timeout"` // between two requests
}

// API bounds what requests to the API hold on one instance. Bytes are of memory:
// a request counts with what its body and its answer take once they are decoded.
type API struct {
	InFlightBytes  int64 `config:"in_flight_bytes"`
	TenantBytes    int64 `config:"tenant_bytes"`
	KeyBytes       int64 `config:"key_bytes"`
	TenantRequests int   `config:"tenant_requests"`
	KeyRequests    int   `config:"key_requests"`
}

func (a API) validate(f *eventhook.Faults) {
	const leastBytes, leastRequests = 1 << 20, 4
	for _, v := range []struct {
		key          string
		value, least int64
	}{
		{"api.in_flight_bytes", a.InFlightBytes, leastBytes},
		{"api.tenant_bytes", a.TenantBytes, leastBytes},
		{"api.key_bytes", a.KeyBytes, leastBytes},
		{"api.tenant_requests", int64(a.TenantRequests), leastRequests},
		{"api.key_requests", int64(a.KeyRequests), leastRequests},
	} {
		if v.value < v.least {
			f.Add(v.key, "%d, want at least %d", v.value, v.least)
		}
	}
}

// Log says how logs are written.
type Log struct {
	Level  string `config:"level"`  // debug, info, warn, error
	Format string `config:"format"` // text, json
}

// Outbound says where requests of ours may go.
type Outbound struct {
	AllowPrivateNetworks bool     `config:"allow_private_networks"`
	AllowedCIDRs         []string `config:"allowed_cidrs"` // networks that may be reached whatever they are
	// ProxyURL is of the HTTP proxy that dials for us, "" for none. It may have a
	// password. It resolves the names, and judges the addresses that they have.
	ProxyURL     string `config:"proxy_url"`
	RequireHTTPS bool   `config:"require_https"` // of subscriptions: events are sent encrypted or not at all

	Publish  outbound.PublishConfig `config:"publish"`
	Dispatch outbound.Config        `config:"dispatch"`
}

// Proxy is the URL of the proxy; nil without one, or if Validate refuses it.
func (o Outbound) Proxy() *url.URL {
	u, err := url.Parse(o.ProxyURL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || strings.Trim(u.Path, "/")+u.RawQuery+u.Fragment != "" {
		return nil
	}
	return u
}

// Prefixes are the allowed networks; those that Validate refuses are left out.
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
			f.Add(fmt.Sprintf("outbound.allowed_cidrs[%d]", i), "%q is not a network such as 10.1.0.0/16 or fd00::/8; one address is 10.1.2.3/32", text)
		}
	}
	if o.ProxyURL != "" && o.Proxy() == nil {
		f.Add("outbound.proxy_url", "is not the URL of a proxy, such as http://proxy.example:3128")
	}
}

// Default is the configuration of a start without any.
func Default() Config {
	return Config{
		DataDir:          "./data",
		Listen:           ":8080",
		ManagementListen: ":9980",
		LeaseSeconds:     30,
		StopTimeout:      30 * time.Second,
		Retention:        Retention{EventsDays: 90, BodiesDays: 90, DeliveriesDays: 14, AuditDays: 400},
		Database:         Database{AcceptConns: 4, WorkConns: 16, ListConns: 4},
		Log:              Log{Level: "info", Format: "text"},
		Server:           Server{ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 60 * time.Second, IdleTimeout: 120 * time.Second},
		API:              API{InFlightBytes: 256 << 20, TenantBytes: 64 << 20, KeyBytes: 48 << 20, TenantRequests: 512, KeyRequests: 256},
		Outbound:         Outbound{Publish: outbound.DefaultPublishConfig(), Dispatch: outbound.DefaultConfig()},
		Ingest:           ingest.DefaultConfig(),
		Route:            route.DefaultConfig(),
		Evaluation:       cpushare.DefaultConfig(),
	}
}

// Lease is how long work is leased before others may take it.
func (c Config) Lease() time.Duration { return time.Duration(c.LeaseSeconds) * time.Second }

// Validate reports every fault by its key. It changes nothing.
func (c Config) Validate() eventhook.Faults {
	var f eventhook.Faults
	c.validateAddresses(&f)
	if c.DatabaseURL != "" && !isDatabaseURL(c.DatabaseURL) {
		f.Add("database_url", "is not a PostgreSQL URL such as postgres://user@host:5432/database")
	}
	if c.DatabaseURL == "" && c.DataDir == "" {
		f.Add("data_dir", "is required without a database_url")
	}
	if c.DatabaseURL != "" && len(c.EncryptionKeys) == 0 {
		f.Add("encryption_keys", "is required with a database_url; make one with: openssl rand -base64 32")
	}
	if c.DatabaseURL != "" && c.AdminKey == "" {
		f.Add("admin_key", "is required with a database_url")
	}
	const shortest = 16
	if c.AdminKey != "" && len(c.AdminKey) < shortest {
		f.Add("admin_key", "has %d characters, want at least %d", len(c.AdminKey), shortest)
	}
	if c.StopTimeout < time.Second {
		f.Add("stop_timeout", "%s, want at least 1s", c.StopTimeout)
	}
	for _, v := range []struct {
		key                string
		value, least, most int
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
		if v.value < v.least || v.value > v.most {
			f.Add(v.key, "%d, want %d to %d", v.value, v.least, v.most)
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
	ingestFaults := c.Ingest
	ingestFaults.TrustedProxies = nil // told under the top-level name below
	f.Merge("ingest", ingestFaults.Validate())
	f.Merge("route", c.Route.Validate())
	f.Merge("evaluation", c.Evaluation.Validate())
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
			f.Add(v.key, "%q is not an address such as :8080", v.value)
		}
	}
	if c.PublicURL != "" {
		u, err := url.Parse(c.PublicURL)
		if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
			f.Add("public_url", "%q is not a URL such as https://hooks.example.com", c.PublicURL)
		}
	}
}

// isDatabaseURL takes what libpq does: a URL, or words such as host=db.
func isDatabaseURL(s string) bool {
	if strings.HasPrefix(s, "postgres://") || strings.HasPrefix(s, "postgresql://") {
		_, err := url.Parse(s)
		return err == nil
	}
	return !strings.Contains(s, "://") && strings.Contains(s, "=")
}

func validateOneOf(f *eventhook.Faults, key, value string, allowed ...string) {
	for _, a := range allowed {
		if value == a {
			return
		}
	}
	f.Add(key, "%q, want one of %v", value, allowed)
}
