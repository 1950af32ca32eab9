package verify

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

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

// vector is a vector of a file. The file may have remarks, which do not change the
// result.
type vector struct {
	verify.Vector
	Source      any `json:"source"`
	Published   any `json:"published"`
	Why         any `json:"why"`
	ConfirmedBy any `json:"confirmed_by"`
	SDKNote     any `json:"sdk_note"`
}

// readVectors reads a file of vectors. Its errors do not contain values of the file.
func readVectors(cmd *cobra.Command, file string) ([]vector, error) {
	raw, err := input.ReadFile(file, cmd.InOrStdin())
	if err != nil {
		return nil, err
	}
	vectors, err := parseVectors(raw)
	if err != nil {
		return nil, fmt.Errorf("the vectors are not valid: %w", err)
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

// parseVectors decodes a list of vectors and refuses unknown members.
func parseVectors(raw []byte) (vectors []vector, err error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	err = d.Decode(&vectors)
	if name, ok := unknownMember(err); ok {
		return nil, fmt.Errorf("there is no member %s", name)
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && wrong.Field != "" {
		return nil, fmt.Errorf("%s has a value of the wrong type", strings.TrimPrefix(wrong.Field, "Vector."))
	}
	if err != nil || !json.Valid(raw) { // there may be text after the list
		return nil, errors.New("want a JSON array of objects")
	}
	return vectors, nil
}
