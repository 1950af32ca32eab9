package input

import (
	"cmp"
	"os"
)

// The environment variables that replace flags which are not given.
const (
	ServerVariable = "EVENTHOOK_SERVER"
	KeyVariable    = "EVENTHOOK_KEY"
	TenantVariable = "EVENTHOOK_TENANT"
	SecretVariable = "EVENTHOOK_SECRET" // signs or verifies
)

// DefaultServer is the URL of a gateway that runs on this host with default settings.
const DefaultServer = "http://localhost:8080"

// ServerURL returns the URL of the gateway: the value of the flag --server, else
// of EVENTHOOK_SERVER, else DefaultServer.
func ServerURL(flag string) string {
	return cmp.Or(flag, os.Getenv(ServerVariable), DefaultServer)
}
