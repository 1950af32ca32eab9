package input

import (
	"cmp"
	"net"
	"net/url"
	"os"
	"strings"
)

// The environment variables that replace flags which are not given.
const (
	ServerVariable   = "EVENTHOOK_SERVER"
	KeyVariable      = "EVENTHOOK_KEY"
	AdminKeyVariable = "EVENTHOOK_ADMIN_KEY" // a setting of the gateway
	TenantVariable   = "EVENTHOOK_TENANT"
	SecretVariable   = "EVENTHOOK_SECRET" // signs or verifies
)

// DefaultServer is the URL of a gateway that runs on this host with default settings.
const DefaultServer = "http://localhost:8080"

// ServerURL returns the URL of the gateway: the value of the flag --server, else
// of EVENTHOOK_SERVER, else DefaultServer.
//
// A URL without a scheme, such as hooks.example.com, gets https://, or http:// if its host is
// this host.
func ServerURL(flag string) string {
	server := strings.TrimSpace(cmp.Or(flag, os.Getenv(ServerVariable), DefaultServer))
	if strings.Contains(server, "://") {
		return server
	}
	host := server
	if at, err := url.Parse("http://" + server); err == nil {
		host = at.Hostname()
	}
	if ip := net.ParseIP(host); host == "localhost" || ip != nil && ip.IsLoopback() {
		return "http://" + server
	}
	return "https://" + server
}
