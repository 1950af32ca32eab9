package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/eventhook/eventhook/internal/cli/input"
	"github.com/eventhook/eventhook/internal/cli/terminal"
)

const adminKeyFile = "admin.key"

// apiKey is the API key of the requests of a command.
type apiKey struct {
	text      string
	from      string // flag, variable or file that holds the key
	isDefault bool   // the user did not choose the key
}

// findKey returns the key of the flag, else of EVENTHOOK_KEY, else the newest of
// EVENTHOOK_ADMIN_KEY, else, if server is on
// this host, the admin key in the data folder. The key in
// that folder is never sent to another host.
func findKey(flag, server string) (apiKey, error) {
	if flag != "" {
		return apiKey{text: flag, from: "--key"}, nil
	}
	if key := os.Getenv(input.KeyVariable); key != "" {
		return apiKey{text: key, from: input.KeyVariable}, nil
	}
	if keys := os.Getenv(input.AdminKeyVariable); keys != "" {
		newest, _, _ := strings.Cut(keys, ",") // several during a rotation
		return apiKey{text: strings.TrimSpace(newest), from: input.AdminKeyVariable}, nil
	}
	missing := errors.New("an API key is required: set EVENTHOOK_KEY or --key")
	if !isLoopback(server) {
		return apiKey{}, input.Usage(missing)
	}
	path := filepath.Join(cmp.Or(os.Getenv("EVENTHOOK_DATA_DIR"), "data"), adminKeyFile)
	raw, err := os.ReadFile(path) //nolint:gosec // the operator chooses the folder
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return apiKey{}, input.Usagef("%w; the file %s with the admin key does not exist", missing, path)
	case err != nil:
		return apiKey{}, fmt.Errorf("read the admin key: %w", err)
	}
	return apiKey{text: strings.TrimSpace(string(raw)), from: path, isDefault: true}, nil
}

// announce prints on a terminal that the admin key is used by default.
func (k apiKey) announce(w io.Writer) {
	if k.isDefault && terminal.IsTerminal(w) {
		_, _ = fmt.Fprintf(w, "(using the admin key in %s; set EVENTHOOK_KEY to use another key)\n", k.from)
	}
}

// isLoopback reports whether the URL of a server names this host.
func isLoopback(server string) bool {
	at, err := url.Parse(server)
	if err != nil {
		return false
	}
	ip := net.ParseIP(at.Hostname())
	return at.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}
