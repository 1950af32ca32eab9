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

// foundKey is the key to call with, and where it was found.
type foundKey struct {
	text, from string
	assumed    bool // nobody named it
}

// findKey is the key that a flag gives, else the environment, else, for a
// gateway on this machine, the admin key in the data folder: who can read that
// may use it.
func findKey(flag, server string) (foundKey, error) {
	if flag != "" {
		return foundKey{text: flag, from: "--key"}, nil
	}
	if key := os.Getenv(input.KeyVariable); key != "" {
		return foundKey{text: key, from: input.KeyVariable}, nil
	}
	none := errors.New("which key? Give it with EVENTHOOK_KEY or --key")
	if !isLoopback(server) {
		return foundKey{}, input.Usage(none)
	}
	path := filepath.Join(cmp.Or(os.Getenv("EVENTHOOK_DATA_DIR"), "data"), adminKeyFile)
	raw, err := os.ReadFile(path) //nolint:gosec // the folder is the operator's own choice
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return foundKey{}, input.Usagef("%w; there is no %s either", none, path)
	case err != nil:
		return foundKey{}, fmt.Errorf("read the admin key: %w", err)
	}
	return foundKey{text: strings.TrimSpace(string(raw)), from: path, assumed: true}, nil
}

// announce tells a person that the admin key is used without being named.
func (k foundKey) announce(w io.Writer) {
	if k.assumed && terminal.IsTerminal(w) {
		_, _ = fmt.Fprintf(w, "(with the admin key of %s; EVENTHOOK_KEY names another)\n", k.from)
	}
}

// isLoopback reports whether a server is on this machine.
func isLoopback(server string) bool {
	at, err := url.Parse(server)
	if err != nil {
		return false
	}
	ip := net.ParseIP(at.Hostname())
	return at.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}
