package eventhook

// Outcome says what an event has led to.
type Outcome string

// The outcomes of events.
const (
	OutcomeSucceeded  Outcome = "succeeded"
	OutcomeInProgress Outcome = "in_progress"
	OutcomeFailed     Outcome = "failed"
)

// EventOutcome is the outcome of an event: Failed as soon as an execution or a delivery
// that the event led to is dead, or a promise rejected or expired, also through the
// events that its routes published; otherwise InProgress while one is open; otherwise
// Succeeded. An event that is dead has failed, and an event that is not final is in
// progress.
type EventOutcome struct {
	Outcome  Outcome
	Failures []Failure // the first MaxFailures

	// The current states of the effects of the event's actions, by their ids. An effect
	// that is past its retention is missing.
	Executions map[ExecutionID]ExecutionStatus
	Promises   map[PromiseID]PromiseStatus
	Published  map[EventID]Outcome
}

// MaxFailures is the maximum number of failures in an EventOutcome.
const MaxFailures = 100

// FailureType says what has failed.
type FailureType string

// The types of failures.
const (
	FailedExecution FailureType = "execution"
	FailedPromise   FailureType = "promise"
	FailedDelivery  FailureType = "delivery"
	FailedAction    FailureType = "action"
	FailedEvent     FailureType = "event"
)

// Failure is one of the causes of OutcomeFailed.
type Failure struct {
	Type    FailureType
	ID      string
	EventID EventID // the event that the delivery sends; the event itself for all other types
	Status  string
	Error   string // readable by users
}

// Fail adds a failure.
func (o *EventOutcome) Fail(f Failure) {
	o.Outcome = OutcomeFailed
	if len(o.Failures) < MaxFailures {
		o.Failures = append(o.Failures, f)
	}
}

// Wait records that an effect is open.
func (o *EventOutcome) Wait() {
	if o.Outcome == OutcomeSucceeded {
		o.Outcome = OutcomeInProgress
	}
}
