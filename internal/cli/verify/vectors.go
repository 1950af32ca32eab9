package verify

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/eventhook/eventhook/internal/cli/input"
	"github.com/eventhook/eventhook/internal/cli/terminal"
	"github.com/eventhook/eventhook/verify"
)

// vectorResult is the line that is printed for a vector. Its members are documented.
type vectorResult struct {
	Provider string  `json:"provider"`
	Scheme   string  `json:"scheme"`
	Name     string  `json:"name"`
	Verified bool    `json:"verified"`
	Error    *string `json:"error"`
}

// runVectors verifies the vectors of a file in their order. It fails with
// terminal.ErrPrinted if a result is not the expected one. A vector whose
// configuration is not valid counts as not verified.
func runVectors(cmd *cobra.Command, file string, keys verify.Keys) error {
	vectors, err := readVectors(cmd, file)
	if err != nil {
		return input.Usage(err)
	}
	differ := 0
	for _, v := range vectors {
		err := v.Verify(cmd.Context(), keys)
		_, known := verify.FindPreset(v.Provider, v.Scheme)
		if v.Expect != "" && ((v.Expect == expectValid) != (err == nil) || !known) { // an unknown provider is never the expected result
			differ++
		}
		if err := terminal.PrintLine(cmd.OutOrStdout(), vectorResult{v.Provider, v.Scheme, v.Name, err == nil, terminal.OrNull(verify.RefusalText(err))}); err != nil {
			return err
		}
	}
	if differ > 0 {
		_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "eventhook: %d of %d results are not the expected ones\n", differ, len(vectors))
		return terminal.ErrPrinted
	}
	return nil
}

// The expected results of a vector.
const (
	expectValid   = "valid"
	expectInvalid = "invalid"
)

func readVectors(cmd *cobra.Command, file string) ([]verify.Vector, error) {
	raw, err := input.ReadFile(file, cmd.InOrStdin())
	if err != nil {
		return nil, err
	}
	var vectors []verify.Vector
	if err := json.Unmarshal(raw, &vectors); err != nil {
		return nil, fmt.Errorf("the vectors are not valid: want a JSON array of objects: %w", err)
	}
	if len(vectors) == 0 {
		return nil, errors.New("the file contains no vectors")
	}
	for i, v := range vectors {
		if v.Expect != "" && v.Expect != expectValid && v.Expect != expectInvalid {
			return nil, fmt.Errorf("vector %d: expect %q, want %s or %s", i, v.Expect, expectValid, expectInvalid)
		}
	}
	return vectors, nil
}
