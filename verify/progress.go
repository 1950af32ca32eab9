package verify

import "errors"

// steps has the number of steps that a verification passed, by the reason of its failure.
var steps = map[Reason]int{
	ReasonMissingHeader: 0, ReasonMissingField: 1, ReasonMalformed: 1, ReasonPrefix: 2, ReasonEncoding: 3,
	ReasonKey: 4, ReasonUnavailable: 4, ReasonMismatch: 5, ReasonCredentials: 5, ReasonToken: 6, ReasonTimestamp: 6,
}

// verified is the progress of a request that was verified: more than any value of steps.
const verified = 7

// Progress returns the number of steps that a verification passed before it failed with err, an
// error of Verifier.Verify. For nil, it returns a higher number than for any error. Of several
// failed attempts to verify one request, the error with the highest progress explains the
// failure best.
func Progress(err error) int {
	if failure, ok := errors.AsType[*Error](err); ok {
		return steps[failure.Reason]
	}
	return verified
}
