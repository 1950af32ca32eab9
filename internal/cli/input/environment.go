package input

import (
	"cmp"
	"os"
)

// The variables that stand for the flags of the commands that call a gateway.
const (
	ServerVariable = "EVENTHOOK_SERVER"
	KeyVariable    = "EVENTHOOK_KEY"
	TenantVariable = "EVENTHOOK_TENANT"
	SecretVariable = "EVENTHOOK_SECRET" // to sign or verify with
)

const DefaultServer = "http://localhost:8080"

// serverURL returns the gateway's URL: of the flag --server, else of
// EVENTHOOK_SERVER, else the default.
func ServerURL(flag string) string {
	return cmp.Or(flag, os.Getenv(ServerVariable), DefaultServer)
}
