package verify

import "errors"

// steps are the number of steps that a verification passed, by the reason of
// its failure.
var steps = map[Reason]int{
	ReasonMissingHeader: 0, ReasonMissingField: 1, ReasonMalformed: 1, ReasonPrefix: 2, ReasonEncoding: 3,
	ReasonKey: 4, ReasonUnavailable: 4, ReasonMismatch: 5, ReasonCredentials: 5, ReasonToken: 6, ReasonTimestamp: 6,
}

// Progress returns how far a verification came that ended with err: the higher,
// the more steps it passed. A verification without an error has the highest.
// Of several failed attempts to verify one request, the error with the highest
// progress explains the failure best.
func Progress(err error) int {
	if failure, ok := errors.AsType[*Error](err); ok {
		return steps[failure.Reason]
	}
	return len(steps) // verified
}
