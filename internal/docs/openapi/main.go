// Command openapi prints the API's OpenAPI document for docs/openapi.json. It
// stands apart from the eventhook command, which is built with the client that
// is made of the document.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/eventhook/eventhook/internal/api"
)

// version stays the same, so that a release changes nothing in the document.
const version = "dev"

func main() {
	if err := write(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "openapi:", err)
		os.Exit(1)
	}
}

func write(w io.Writer) error {
	out := json.NewEncoder(w)
	out.SetIndent("", "  ")
	return out.Encode(api.Document(version))
}
