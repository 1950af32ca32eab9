package eventhook

import "fmt"

// CheckExpectedCount returns a KindConflict with the number of matches if a caller who changes
// many objects expects another number. A nil expectation is met by every number.
func CheckExpectedCount(expected *int, matched int, objects string) error {
	if expected == nil || *expected == matched {
		return nil
	}
	return &Error{Kind: KindConflict,
		Message: fmt.Sprintf("The filter matches %d %s, not %d. Nothing was changed.", matched, objects, *expected),
		Faults:  []Fault{{Location: "body.expected_count", Message: fmt.Sprintf("is %d, but %d match", *expected, matched)}}}
}
